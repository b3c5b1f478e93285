"""The volume engine: data volumes per launch and memory level (Warpspeed, arXiv 2204.14242)."""

"""The volume engine: Warpspeed (Ernst et al., arXiv 2204.14242), whole."""

"""``*.perf.toml``: kernels, launches and what is expected of them, read without pytest."""

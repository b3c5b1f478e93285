"""Tests in TOML that several modules run."""

COPY = """
[kernels.copy.accesses]
fields = [{ name = "a", shape = "1048576" }, { name = "b", shape = "1048576" }]
loads = ["a[x]"]
stores = ["b[x]"]

[[test]]
name = "copy"
kernel = "copy"
launch = { domain = "1048576", block = 256 }
expect = { limiter = "dram" }
"""
"""A kernel from address expressions, and a test of it that passes."""

"""Kernels that Python writes: each generator's own objects → kernels, compiled without a GPU."""

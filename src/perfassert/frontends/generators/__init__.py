"""Kernels from objects of Python packages that generate code, compiled without a GPU."""

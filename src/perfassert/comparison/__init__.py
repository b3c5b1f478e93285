"""Comparisons of two reports, or of the kernels of two sides."""

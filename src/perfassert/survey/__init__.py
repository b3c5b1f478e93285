"""Findings in a library of kernels without a launch, worst first."""

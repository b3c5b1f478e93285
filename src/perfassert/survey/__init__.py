"""What is wrong in a library of kernels, worst first, without a launch."""

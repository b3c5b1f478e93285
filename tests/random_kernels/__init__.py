"""Random CUDA kernels, and how much each of them moves, counted thread by thread."""

"""The execution engine: computes the addresses and branches of a sample of blocks."""

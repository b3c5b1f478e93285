"""The execution engine: runs what addresses and branches depend on, for a sample of blocks."""

"""The advisor (GPA): causes of stalls, optimizations against them, and the speedup of each."""

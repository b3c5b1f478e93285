"""What instructions cost in the simulation: memory, matrix units, fetching, atomics."""

"""Costs of instructions in the simulation: memory, matrix units, fetching, atomics."""

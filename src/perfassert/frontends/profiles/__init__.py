"""Launches that a profile of a real GPU shows: Nsight Compute's CSV, Nsight Systems' database."""

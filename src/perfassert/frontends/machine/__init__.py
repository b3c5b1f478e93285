"""A listing of SASS as machine operations, and what else an instruction says of itself."""

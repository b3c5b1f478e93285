"""Kernel descriptions from compiled code: what the SASS executes, and which addresses it uses."""

"""A program for one launch: arguments, constants, where accesses go."""

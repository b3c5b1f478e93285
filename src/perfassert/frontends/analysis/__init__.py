"""Analysis of machine operations: control flow, loops, symbolic values, the program."""

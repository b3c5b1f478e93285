"""Machine code of one kernel, with the facts of its binary, from sources and compiled files."""

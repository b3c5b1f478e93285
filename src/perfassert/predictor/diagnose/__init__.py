"""Where the time of a launch goes, line by line, and what would help."""

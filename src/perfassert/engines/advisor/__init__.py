"""The advisor (GPA): who is to blame for each stall, what would help, by how much."""

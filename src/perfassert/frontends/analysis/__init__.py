"""What machine operations compute: flow of control, loops, symbolic values, the program."""

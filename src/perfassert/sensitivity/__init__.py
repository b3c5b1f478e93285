"""How far predictions move with the values of a device file."""

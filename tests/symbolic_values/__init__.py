"""Random programs of machine operations, evaluated symbolically and executed."""

"""Sensitivity of predictions to the values of a device file."""

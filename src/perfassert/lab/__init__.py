"""Calibration, measurement and validation of the model, which need a GPU or measured data."""

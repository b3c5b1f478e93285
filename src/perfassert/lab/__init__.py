"""What needs a GPU or measured data: calibration, measurement and validation of the model."""

"""Predictor: runs the engines on a kernel, a launch and a device, and returns a prediction."""

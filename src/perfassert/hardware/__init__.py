"""Devices: model, files, occupancy."""

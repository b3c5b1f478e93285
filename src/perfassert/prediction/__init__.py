"""What leaves the model: volumes and predictions, plain immutable data."""

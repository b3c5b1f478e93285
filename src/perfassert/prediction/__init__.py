"""Results of the model: volumes and predictions, as plain immutable data."""

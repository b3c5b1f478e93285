"""Front ends: kernel descriptions from what users write."""

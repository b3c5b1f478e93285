"""Front ends: from what users write to kernel descriptions."""

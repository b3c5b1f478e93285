"""What users write → kernel descriptions."""

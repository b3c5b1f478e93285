"""Which launch, which variant is fastest."""

"""prediction → verdict."""

"""Rankings of launches and variants by predicted time."""

"""Description + launch + device → numbers. No engine imports another."""

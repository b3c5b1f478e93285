"""Baselines: predictions kept as text in the repository, and what has changed since."""

"""Verdicts on predictions."""

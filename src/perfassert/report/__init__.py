"""Verdicts as text."""

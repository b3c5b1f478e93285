"""Comparison of predictions with measurements: suites, statistics, reports."""

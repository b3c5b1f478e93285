"""Measurement of a suite on a GPU: times, counters, and the CSV file that ``validate`` reads."""

"""How far predictions are from measurements: suites, statistics, reports."""

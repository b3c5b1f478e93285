"""A suite's kernels on a GPU: times, counters, and the CSV file that ``validate`` reads."""

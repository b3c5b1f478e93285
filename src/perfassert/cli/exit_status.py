"""Exit statuses of the commands, as docs/reference/command-line.md lists them."""

OK, FAILED, USAGE, INTERNAL = 0, 1, 2, 3
"""Nothing to report; a regression or an error; a wrong command line; a defect of perfassert."""
INTERRUPTED = 130
"""The status of shells after SIGINT."""

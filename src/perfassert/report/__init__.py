"""Reports of predictions and verdicts: text, pages, plain data and other formats."""

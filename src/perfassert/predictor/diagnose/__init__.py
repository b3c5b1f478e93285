"""Diagnosis of a launch: where its time goes, line by line, and changes that would help."""

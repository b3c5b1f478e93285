"""JSON Schemas of the files that people and programs write for, or read from, perfassert."""

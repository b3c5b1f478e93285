"""Blocks that are executed: where closed forms end, and to check them."""

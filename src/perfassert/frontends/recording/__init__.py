"""Launches recorded from a program that runs without a GPU; see ``docs/how-to/recording.md``."""

"""TOML, read and written in one way each."""

"""Compiled code → kernel descriptions: what SASS executes, and where."""

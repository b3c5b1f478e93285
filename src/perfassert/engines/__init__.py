"""Engines of the model: description, launch and device in, numbers out.

No engine imports another.
"""

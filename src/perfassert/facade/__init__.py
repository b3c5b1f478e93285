"""Predictions, sessions and ``predict`` as users have them: what lies below, put together."""

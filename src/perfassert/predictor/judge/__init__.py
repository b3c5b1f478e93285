"""Judgement of a simulated launch: values, error bands, and how sure they are."""

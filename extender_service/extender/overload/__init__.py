"""Refuses calls that are too many or too large, and lends memory for large bodies."""

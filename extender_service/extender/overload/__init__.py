"""Refuses calls when there are too many or they are too large, and reuses memory for large bodies."""

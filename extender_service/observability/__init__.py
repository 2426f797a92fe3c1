"""Metrics, logs and health."""

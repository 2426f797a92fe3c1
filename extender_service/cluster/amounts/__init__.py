"""Amounts of resources: what a pod requests, what a node offers, and their columns."""

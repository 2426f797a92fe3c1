"""Containers that know nothing of Kubernetes: values kept once, counts by row, what is kept until something changes."""

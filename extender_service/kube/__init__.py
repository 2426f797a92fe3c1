"""Kubernetes as such: objects, quantities, selectors, and the API server."""

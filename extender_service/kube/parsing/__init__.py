"""Decode and check Kubernetes objects: quantities, selectors, defaults, manifests."""

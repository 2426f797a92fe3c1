"""The types of Kubernetes objects, as the API server sends them."""

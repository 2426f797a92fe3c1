"""Types of Kubernetes objects, as the API server sends them, and of the extender API's messages."""

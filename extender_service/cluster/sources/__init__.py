"""Where the objects of the cluster come from: an API server, or a file."""

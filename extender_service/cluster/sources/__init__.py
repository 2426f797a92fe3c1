"""Where the objects of the cluster come from: an API server, a file, or objects in memory."""

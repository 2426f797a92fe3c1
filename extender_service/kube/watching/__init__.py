"""List and watch the objects of the API server."""

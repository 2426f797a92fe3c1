"""Requests to the API server: the client, its connections, and the limits on both."""

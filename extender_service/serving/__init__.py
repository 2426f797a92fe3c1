"""The HTTP server: uvicorn with limits on its callers, TLS, and a shutdown that loses no call."""

"""The HTTP server: uvicorn within limits, over TLS, and the way out."""

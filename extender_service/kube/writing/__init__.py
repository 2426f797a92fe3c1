"""Events that are written to the API server, and the lease that says who leads."""

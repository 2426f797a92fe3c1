"""Events that we write to the API server, and the lease of the leader."""

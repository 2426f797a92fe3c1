"""Compare the cluster's state with the API server's, dump it, and measure its tables."""

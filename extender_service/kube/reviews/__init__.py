"""Questions to the API server: who a caller is, and what it or we may do."""

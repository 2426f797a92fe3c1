"""The resources of the API server: their paths, and how their lists and watches are decoded."""

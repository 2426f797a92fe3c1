"""The program `serve`: its options, its listeners and probes, and its start."""

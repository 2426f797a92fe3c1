"""The table of pods, and what is counted from it for each node."""

"""The state of the cluster: its tables together, placements, nominations, and what changed."""

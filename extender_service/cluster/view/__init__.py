"""Nodes as a plugin sees them, with pods added or removed where a decision asks what would happen then."""

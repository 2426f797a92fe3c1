"""Volumes and claims: what is known of them, which are free, who holds them and where they are attached."""

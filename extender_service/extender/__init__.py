"""The scheduler-extender HTTP API: its wire types, its verbs, its application."""

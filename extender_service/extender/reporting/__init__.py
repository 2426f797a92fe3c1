"""What is logged and counted about each call."""

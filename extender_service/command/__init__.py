"""The command line: its options, and the start of the service with them."""

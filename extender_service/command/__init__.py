"""The command line: its options, and the start of `serve` and `schedule` with them."""

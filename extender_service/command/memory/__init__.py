"""The memory of a program that runs for long: what is free is returned, and what stays is settled."""

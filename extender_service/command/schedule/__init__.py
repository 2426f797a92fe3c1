"""The program `schedule`: its options, its election, its HTTPS and its start; and `schedule --cluster-file`."""

"""The command line: options, listeners, profiles, and what `serve` starts."""

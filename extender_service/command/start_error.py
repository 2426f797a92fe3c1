"""The error that keeps the service from starting."""


class StartError(Exception):
    """The service cannot start. The text has one line for each problem, which says how to correct it."""

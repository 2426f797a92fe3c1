"""The error that keeps the service from starting."""


class StartError(Exception):
    """The service cannot start; a line for each thing that is wrong, which says what to do."""

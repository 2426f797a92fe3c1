"""The one error of everything that finds the API server and proves who we are to it."""


class CredentialsError(ValueError):
    """The API server cannot be found, or will not know us: one line that says where, and what would be right."""

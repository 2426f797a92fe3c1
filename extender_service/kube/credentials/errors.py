"""The error that all modules of this package raise."""


class CredentialsError(ValueError):
    """The API server's address or our credentials are missing or wrong.

    The text is one line. It names the file or option, and says how to correct it.
    """

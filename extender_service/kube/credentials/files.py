"""Reads files of credentials, which may be replaced at any time."""

from pathlib import Path
from typing import Final

from extender_service.kube.credentials.errors import CredentialsError

REREAD_SECONDS: Final = 60.0
"""How often to read files again (client-go: transport/token_source.go)."""

RETRY_SECONDS: Final = 1.0
"""How soon to read files again that cannot be used: they may be about to be replaced one by one."""


def read_file(path: str, what: str) -> bytes:
    """Return the file's content, empty for no path. Raises CredentialsError, whose text starts with `what`."""
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f"{what} {path}: {error.strerror}") from error
    except ValueError as error:
        raise CredentialsError(f"{what}: the name of a file cannot have a NUL character") from error

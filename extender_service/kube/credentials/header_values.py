"""What HTTP allows in the value of a header: tokens and the names of users become such values."""

from extender_service.kube.credentials.errors import CredentialsError

_NAMES = {"\n": "a line break", "\r": "a line break", "\0": "a NUL character"}


def require_header_value(value: str, what: str) -> None:
    """Raise CredentialsError, whose text starts with `what`, for a value with a line break or control character.

    client-go cannot send these either (golang.org/x/net/http/httpguts: ValidHeaderFieldValue). Tabs are allowed.
    """
    for character in value:
        if (character < " " and character != "\t") or character == "\x7f":
            name = _NAMES.get(character, f"the control character U+{ord(character):04X}")
            raise CredentialsError(f"{what} must be text in one line, but has {name}")

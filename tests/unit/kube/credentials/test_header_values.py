import pytest

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.header_values import require_header_value


@pytest.mark.parametrize("value", ["", "a b", "a\tb", "jörg", "a\x80b"])
def test_what_go_sends_is_allowed(value: str) -> None:
    require_header_value(value, "token")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a\n", "a line break"),
        ("a\r\nX: b", "a line break"),
        ("\0", "a NUL character"),
        ("a\x1b", "the control character U+001B"),
        ("a\x7f", "the control character U+007F"),
    ],
)
def test_what_go_refuses_is_named_without_the_value(value: str, found: str) -> None:
    with pytest.raises(CredentialsError) as error:
        require_header_value(value, "user u: token")
    assert str(error.value) == f"user u: token must be text in one line, but has {found}"

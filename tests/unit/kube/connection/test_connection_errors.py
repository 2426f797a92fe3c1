import errno
import ssl
from itertools import pairwise

import aiohttp
import pytest

from extender_service.kube.connection.connection_errors import is_refused, words_of


def raised(*errors: Exception) -> Exception:
    """The first error, raised from the second one, and so on."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(errno.ECONNRESET, "whatever"), "[Errno 104] Connection reset by peer"),
        (
            raised(aiohttp.ClientError("cannot"), OSError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")),
            "[Errno 111] Connection refused",
        ),
        (raised(aiohttp.ClientError("cannot"), ssl.SSLError(1, "bad certificate")), "bad certificate"),
        (aiohttp.ClientError("an odd thing"), "an odd thing"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_systems_words_come_first_and_the_kind_of_error_last(error: Exception, words: str) -> None:
    assert words in words_of(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (raised(aiohttp.ClientError("cannot"), OSError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")), True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), True),
        (raised(aiohttp.ClientError("cannot"), OSError(errno.EHOSTUNREACH, "No route to host")), False),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), False),
    ],
)
def test_a_server_that_does_not_listen_refuses(error: Exception, expected: bool) -> None:
    assert is_refused(error) == expected

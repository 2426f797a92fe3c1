"""Refuses requests that a web page makes a browser send.

A browser runs on the user's machine, so a page of any site reaches a listener on loopback through it. The page can send
a simple POST to an address (the browser adds `Origin`), or point a name of its own at that address, and then read the
answers, too (DNS rebinding: `Host` has the page's name). kube-scheduler, kubectl, curl and Prometheus send no `Origin`.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

# RFC 9110, 7.2: a name or an address, IPv6 in brackets, and perhaps a port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::[0-9]*)?")
_QUOTED_CHARACTERS = 100

_ORIGIN_PROBLEM = (
    "the request has an Origin header, as those that a browser sends for a web page: they are refused, since any page "
    "that a user opens could bind pods"
)


class WebPageRequest(NamedTuple):
    """The header that shows that a web page may have sent a request, and the text of the refusal."""

    header: Literal["origin", "host"]
    problem: str


class BrowserGuard:
    """Checks the headers of a listener's requests.

    `own_name` is the configured name or address of a listener on loopback. `Host` must be that, or another name of
    this machine's loopback. It is None where DNS rebinding does not work: a page does not know the address of a
    listener that is not on loopback, and over TLS the browser compares the name with the certificate.
    """

    def __init__(self, own_name: str | None) -> None:
        self._own_name = own_name
        self._last_good_host: bytes | None = None

    def refuse(self, headers: Sequence[tuple[bytes, bytes]]) -> WebPageRequest | None:
        """Return why a request with these headers is refused, None if it is not; names are in lower case.

        A request without `Host`, such as one of HTTP/1.0, is not a browser's.
        """
        by_name = dict(headers)
        if len(by_name) == len(headers) and b"origin" not in by_name and by_name.get(b"host") == self._last_good_host:
            return None  # as a caller sends the same Host each time
        for name, value in headers:
            if name == b"origin":
                return WebPageRequest("origin", _ORIGIN_PROBLEM)
            if name == b"host" and value != self._last_good_host and self._own_name is not None:
                if not _is_loopback(value.decode("latin-1"), self._own_name):
                    return WebPageRequest("host", _host_problem(value, self._own_name))
                self._last_good_host = value
        return None


def _is_loopback(host: str, own_name: str) -> bool:
    """Whether a Host header, with or without a port, has `own_name` or a name or address of loopback."""
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    name = parts[1] or parts[2]
    if name.lower() in ("localhost", own_name.lower()):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host_problem(host: bytes, own_name: str) -> str:
    quoted = host[:_QUOTED_CHARACTERS].decode("latin-1")
    names = ", ".join(dict.fromkeys(["localhost", "127.0.0.0/8", "[::1]", own_name]))
    return (
        f"the Host header is {quoted!r}, but this listener, on loopback, answers only calls to {names}: a web page can "
        "point another name at it; let a proxy in front send one of these"
    )

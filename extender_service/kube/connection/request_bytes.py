"""The bytes of a request, put together from parts that are the same for all requests of an identity."""

import base64
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import httpx

from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.connection.connector import USER_AGENT
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials

# What a path may have as it is (RFC 3986).
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~!$&'()*+,;=:@%]*")
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class RequestBytes:
    """Encodes the requests of an identity to one server."""

    def __init__(self, credentials: Credentials, identity: Identity) -> None:
        """Raises UnreachableError if a header cannot be sent."""
        url = httpx.URL(credentials.server)
        prefix = url.raw_path.decode().rstrip("/")
        headers = [
            ("Host", url.netloc.decode()),
            ("Accept", "application/json"),
            # Unzipping a page would block the event loop for longer than decoding it.
            ("Accept-Encoding", "identity"),
            ("User-Agent", USER_AGENT),
        ]
        if authorization := identity.authorization or _basic(url.username, url.password):
            headers.append(("Authorization", authorization))
        headers += credentials.headers
        proxy = urlsplit(credentials.proxy)
        if proxy.scheme == "http" and url.scheme == "http":  # no tunnel: the proxy reads each request
            prefix = f"http://{url.netloc.decode()}{prefix}"
            known = httpx.URL(credentials.proxy)
            if proxy_authorization := _basic(known.username, known.password):
                headers.append(("Proxy-Authorization", proxy_authorization))
        for name, value in headers:
            if _FORBIDDEN.search(name + value):
                raise UnreachableError(
                    f"{credentials.shown_server}: a line break or control character in headers: {name}"
                )
        self.identity = identity
        self._prefix = prefix.encode()
        # As in Go, names of users need not be ASCII.
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
        self._with_body: dict[str, bytes] = {}  # by content type, of which there are three

    def read(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return a GET."""
        target = _quoted(path) + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        return b"GET %b%b HTTP/1.1\r\n%b\r\n" % (self._prefix, target.encode(), self._headers)

    def write(self, method: str, path: str, content: bytes, content_type: str) -> bytes:
        """Return a request with a body."""
        rest = self._with_body.get(content_type)
        if rest is None:
            rest = b" HTTP/1.1\r\n%bContent-Type: %b\r\nContent-Length: " % (self._headers, content_type.encode())
            self._with_body[content_type] = rest
        return b"%b %b%b%b%d\r\n\r\n%b" % (
            method.encode(),
            self._prefix,
            _quoted(path).encode(),
            rest,
            len(content),
            content,
        )


def _quoted(path: str) -> str:
    return path if _PATH.fullmatch(path) else quote(path, safe="/!$&'()*+,;=:@%")


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user or password else ""

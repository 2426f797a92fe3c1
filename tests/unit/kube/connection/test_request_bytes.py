from dataclasses import replace

import pytest

from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.connection.connector import USER_AGENT
from extender_service.kube.connection.request_bytes import RequestBytes
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials, load_credentials

ALL = f"Accept: application/json\r\nAccept-Encoding: identity\r\nUser-Agent: {USER_AGENT}\r\n"


def credentials_of(server: str, **fields: object) -> Credentials:
    return replace(load_credentials(master=server), **fields)  # type: ignore[arg-type]


def text_of(server: str, path: str = "/version", *, authorization: str = "", **fields: object) -> str:
    return RequestBytes(credentials_of(server, **fields), Identity(authorization)).read(path).decode()


def test_a_read_has_its_query_and_all_headers() -> None:
    credentials = credentials_of("https://api.example:6443", headers=(("Impersonate-User", "ännä"),))
    requests = RequestBytes(credentials, Identity("Bearer t"))
    assert requests.read("/api/v1/pods", {"fieldSelector": "spec.nodeName!=", "limit": "1"}).decode() == (
        "GET /api/v1/pods?fieldSelector=spec.nodeName%21%3D&limit=1 HTTP/1.1\r\nHost: api.example:6443\r\n"
        f"{ALL}Authorization: Bearer t\r\nImpersonate-User: ännä\r\n\r\n"
    )


def test_a_write_has_its_body_of_so_many_bytes() -> None:
    requests = RequestBytes(credentials_of("https://api.example"), Identity())
    for content, kind in (("ä".encode(), "application/json"), (b"", "application/json"), (b"{}", "text/x")):
        head, _, body = requests.write("PUT", "/a", content, kind).partition(b"\r\n\r\n")
        assert body == content
        assert head.decode() == (
            f"PUT /a HTTP/1.1\r\nHost: api.example\r\n{ALL}Content-Type: {kind}\r\nContent-Length: {len(content)}"
        )


@pytest.mark.parametrize(
    ("server", "path", "line", "host"),
    [
        ("https://api.example:443/prefix", "/version", "/prefix/version", "api.example"),
        ("https://[::1]:6443", "/version", "/version", "[::1]:6443"),
        ("http://API.example:80/", "/a b\r\nX: ü?", "/a%20b%0D%0AX:%20%C3%BC%3F", "api.example"),
        ("https://api.example", "/a%2Fb", "/a%2Fb", "api.example"),
    ],
)
def test_the_url_has_a_prefix_and_whatever_a_path_may_not_have_is_quoted(
    server: str, path: str, line: str, host: str
) -> None:
    assert text_of(server, path).startswith(f"GET {line} HTTP/1.1\r\nHost: {host}\r\n")


def test_the_user_of_the_url_counts_where_there_is_no_other_identity() -> None:
    # As in Go's net/http.
    assert "Authorization: Basic dTpwIA==\r\n" in text_of("https://u:p%20@api.example")
    assert "Authorization: Bearer t\r\n" in text_of("https://u:p@api.example", authorization="Bearer t")
    assert "u:p" not in text_of("https://u:p@api.example")


def test_only_a_proxy_without_a_tunnel_learns_the_whole_url_and_its_own_password() -> None:
    for server, scheme, is_told in (
        ("http://api.example", "http", True),
        ("https://api.example", "http", False),
        ("http://api.example", "socks5", False),
        ("http://api.example", "https", False),
    ):
        text = text_of(server, proxy=f"{scheme}://u:p@proxy.example")
        assert text.startswith("GET http://api.example/version " if is_told else "GET /version ")
        assert ("Proxy-Authorization: Basic dTpw\r\n" in text) == is_told


@pytest.mark.parametrize("value", ["a\nb", "a\r\nb", "a\0b", "a\x7fb"])
def test_a_header_with_a_line_break_or_control_character_is_refused(value: str) -> None:
    with pytest.raises(UnreachableError, match=r"in headers: X-Header$"):
        RequestBytes(credentials_of("https://api.example", headers=(("X-Header", value),)), Identity())

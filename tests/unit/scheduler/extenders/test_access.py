"""How an extender is reached: TLS as the configuration says, and errors that name its field."""

import base64
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from extender_service.config.types import Extender, ExtenderTLSConfig
from extender_service.kube.connection.posts import PostError
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.scheduler.extenders.access import posts_to
from tests.support.clock import Clock
from tests.support.event_loop import in_event_loop
from tests.support.servers.certificates import issue, overwrite, pem_files
from tests.support.servers.http_server import Request, Response, http_server


def extender(url: str, tls: Mapping[str, Any] | None = None, **fields: Any) -> Extender:
    return Extender(url_prefix=url, tls_config=None if tls is None else ExtenderTLSConfig(**tls), **fields)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (extender("gpu.example.com:80"), "extenders[1].urlPrefix: must be a URL that starts with http:// or https://"),
        (extender("https://gpu:x"), "extenders[1].urlPrefix: "),
        (extender("https://gpu", {"ca_file": "/nowhere"}), "extenders[1].tlsConfig.caFile /nowhere: No such file"),
        (extender("https://gpu", {"cert_data": "eA=="}), "extenders[1].tlsConfig: set both, certFile and keyFile"),
        (
            extender("https://gpu", {"ca_data": "eA==", "insecure": True}),
            "extenders[1].tlsConfig: set caFile (or caData) or insecure, not both",
        ),
        (extender("https://gpu", {"ca_data": "eA=="}), "extenders[1].tlsConfig: certificate-authority is not a PEM"),
    ],
)
def test_a_wrong_configuration_is_refused_at_the_start(config: Extender, text: str) -> None:
    with pytest.raises(CredentialsError) as raised:
        posts_to(config, "extenders[1]", time.time)
    assert str(raised.value).startswith(text)


@in_event_loop
async def test_the_authority_and_the_name_of_the_server_are_checked(tmp_path: Path) -> None:
    ca = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issue(ca, "gpu.example.com").configure_cert(tls)
    authority = base64.b64encode(ca.cert_pem.bytes()).decode()

    async def answer(request: Request, response: Response) -> None:
        await response.send_json(200, {"path": request.path})

    async with http_server(answer, tls) as url:
        named = {"ca_data": authority, "server_name": "gpu.example.com"}
        for config, is_trusted in (
            (extender(url, named), True),
            (extender(url, {"ca_data": authority}), False),
            (extender(url), False),
            (extender(url, enableHTTPS=True), True),
            (extender(url, {"insecure": True}), True),
        ):
            async with posts_to(config, "extenders[0]", time.time) as posts:
                if is_trusted:
                    assert await posts.post("filter", b"{}", is_repeatable=True) == b'{"path": "/filter"}'
                else:
                    with pytest.raises(PostError, match="filter"):
                        await posts.post("filter", b"{}", is_repeatable=True)


async def names_shown(tls: Mapping[str, Any], folder: Path, *moments: float) -> list[str]:
    """The names of the client certificates that an extender is shown at such times, in seconds after the start.

    The files of the certificate are replaced just after the start.
    """
    ca, clock = trustme.CA(), Clock()
    names: list[str] = []
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issue(ca, "127.0.0.1").configure_cert(server)
    ca.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED

    async def answer(request: Request, response: Response) -> None:
        assert request.certificate is not None
        names.extend(name for _, name in request.certificate["subjectAltName"])
        await response.send_json(200, {})

    files = pem_files(issue(ca, "first.example"))
    overwrite(folder, files)
    data = {field: base64.b64encode(files[tls[field]]).decode() for field in tls if field.endswith("_data")}
    paths = {field: str(folder / tls[field]) for field in tls if field.endswith("_file")}
    authority = {"ca_data": base64.b64encode(ca.cert_pem.bytes()).decode()}
    async with (
        http_server(answer, server) as url,
        posts_to(extender(url, {**authority, **paths, **data}), "extenders[0]", clock) as posts,
    ):
        overwrite(folder, pem_files(issue(ca, "second.example")))
        for moment in moments:
            clock.now = 1000.0 + moment
            await posts.post("filter", b"{}", is_repeatable=True)
    return names


@in_event_loop
async def test_a_client_certificate_in_files_is_read_again(tmp_path: Path) -> None:
    tls = {"cert_file": "tls.crt", "key_file": "tls.key"}
    shown = await names_shown(tls, tmp_path, 1, 59, 60, 61)
    assert shown == ["first.example", "first.example", "second.example", "second.example"]


@in_event_loop
async def test_a_client_certificate_in_the_configuration_stays(tmp_path: Path) -> None:
    for tls in ({"cert_data": "tls.crt", "key_data": "tls.key"}, {"cert_data": "tls.crt", "key_file": "tls.key"}):
        assert await names_shown(tls, tmp_path, 60) == ["first.example"]


@in_event_loop
async def test_a_negative_time_to_answer_is_no_limit() -> None:
    async def answer(request: Request, response: Response) -> None:
        await response.send_json(200, {"path": request.path})

    async with http_server(answer) as url:
        for timeout, is_answered in (("-1s", True), ("1ns", False)):
            async with posts_to(extender(url, http_timeout=timeout), "extenders[0]", time.time) as posts:
                if is_answered:
                    assert await posts.post("filter", b"{}", is_repeatable=True) == b'{"path": "/filter"}'
                else:
                    with pytest.raises(PostError, match="no whole answer within 1e-09 s"):
                        await posts.post("filter", b"{}", is_repeatable=True)

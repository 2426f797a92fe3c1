import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.serving.callers import known_authorities
from extender_service.serving.callers.authentication import Authenticator, ClientAuthorities, ProxyHeaders
from extender_service.serving.callers.known_authorities import AuthorityFiles, KnownAuthorities, proxy_headers
from extender_service.serving.callers.peer_certificates import certificates_of
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSFiles
from tests.support.clock import Clock
from tests.support.event_loop import in_event_loop
from tests.support.servers.certificates import issue, overwrite, pem_files
from tests.support.servers.http_server import Request, Response, http_server

OURS, CLIENTS, PROXIES, OTHERS = trustme.CA(), trustme.CA(), trustme.CA(), trustme.CA()
OF_FILES = ProxyHeaders(username=("x-user",))


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def der(authority: trustme.CA) -> frozenset[bytes]:
    return certificates_of(pem(authority))


@dataclass
class World:
    """Authorities of files, and those that an API server publishes, as an authenticator knows them."""

    folder: Path
    known: KnownAuthorities
    authenticator: Authenticator
    published: dict[str, str]

    def write(self, name: str, authority: trustme.CA) -> None:
        (self.folder / name).write_text(pem(authority))

    @property
    def authorities(self) -> ClientAuthorities:
        return self.authenticator.authorities


@asynccontextmanager
async def world(folder: Path, *, clients: bool = False, proxies: bool = False) -> AsyncIterator[World]:
    """Authorities in files, if `clients` or `proxies` are to be there, and an API server that publishes others."""
    published = {
        "client-ca-file": pem(OTHERS),
        "requestheader-client-ca-file": pem(OTHERS),
        "requestheader-allowed-names": json.dumps(["front-proxy"]),
        "requestheader-username-headers": json.dumps(["X-Remote-User"]),
    }

    async def answer(request: Request, response: Response) -> None:
        await response.send_json(200, {"metadata": {}, "data": published})

    overwrite(folder, pem_files(issue(OURS, "127.0.0.1"), OURS))
    files = AuthorityFiles(folder / "clients" if clients else None, folder / "proxies" if proxies else None, OF_FILES)
    certificates = ServingCertificates(TLSFiles(folder / "tls.crt", folder / "tls.key"), Refusals())
    authenticator = Authenticator(None, cache_seconds=0.0, clock=Clock())
    async with asyncio.timeout(20), http_server(answer) as url, KubeClient(load_credentials(master=url)) as client:
        known = KnownAuthorities(files, client, authenticator, certificates)
        made = World(folder, known, authenticator, published)
        made.write("clients", CLIENTS)
        made.write("proxies", PROXIES)
        yield made


@in_event_loop
async def test_authorities_of_files_count_before_published_ones(tmp_path: Path) -> None:
    async with world(tmp_path, clients=True, proxies=True) as made:
        assert await made.known.read() is None
        assert made.authorities == ClientAuthorities(der(CLIENTS), der(PROXIES), OF_FILES)


@in_event_loop
async def test_published_authorities_count_where_there_is_no_file(tmp_path: Path) -> None:
    async with world(tmp_path, clients=True) as made:
        assert await made.known.read() is None
        headers = ProxyHeaders(("front-proxy",), ("x-remote-user",), (), (), ())
        assert made.authorities == ClientAuthorities(der(CLIENTS), der(OTHERS), headers)


@in_event_loop
async def test_without_a_client_only_files_count(tmp_path: Path) -> None:
    async with world(tmp_path, clients=True) as made:
        certificates = ServingCertificates(TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key"), Refusals())
        files = AuthorityFiles(tmp_path / "clients", None, OF_FILES)
        assert await KnownAuthorities(files, None, made.authenticator, certificates).read() is None
        assert (made.authorities.clients, made.authorities.proxies) == (der(CLIENTS), frozenset())


@in_event_loop
async def test_what_was_known_before_counts_while_something_cannot_be_read(tmp_path: Path) -> None:
    async with world(tmp_path, clients=True) as made:
        await made.known.read()
        before = made.authorities
        (tmp_path / "clients").write_text("")
        assert await made.known.read() == f"--client-ca-file: {tmp_path / 'clients'} has no PEM certificate"
        made.write("clients", OTHERS)
        made.published["requestheader-allowed-names"] = "{}"
        assert await made.known.read() == "requestheader-allowed-names is no list of names"
        assert made.authorities == before


@in_event_loop
async def test_an_answer_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_authorities, "ANSWER_SECONDS", 0.0)
    async with world(tmp_path) as made:
        assert await made.known.read() == "the API server took longer than 0 s to answer"


@in_event_loop
async def test_they_are_read_again_and_again_and_a_problem_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(known_authorities, "FOLLOW_SECONDS", 0.001)
    async with world(tmp_path, clients=True) as made:
        following = asyncio.create_task(made.known.follow())
        while made.authorities.clients != der(CLIENTS):
            await asyncio.sleep(0.001)
        with caplog.at_level(logging.WARNING):
            (tmp_path / "clients").unlink()
            while not caplog.records:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
        made.write("clients", OTHERS)
        while made.authorities.clients != der(OTHERS):
            await asyncio.sleep(0.001)
        following.cancel()
    assert [each.getMessage() for each in caplog.records] == ["cannot read which authorities vouch for callers"]


def test_headers_of_proxies_may_be_in_any_case() -> None:
    headers = proxy_headers(names=["Ann"], username=["X-A"], group=["X-B"], extra_prefixes=["X-C-"], uid=["X-D"])
    assert headers == ProxyHeaders(("Ann",), ("x-a",), ("x-b",), ("x-c-",), ("x-d",))

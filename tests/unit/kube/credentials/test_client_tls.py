"""TLS to a real server, from the kubeconfig to the request."""

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from extender_service.kube.api_errors import ApiError, UnreachableError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.client_tls import ServerTrust, client_context
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import NODES
from tests.support.clock import Clock
from tests.support.servers.http_server import Request, Response, http_server
from tests.support.servers.kubeconfig_files import write_kubeconfig
from tests.support.servers.proxy_server import Proxy, proxy_server

AUTHORITY = trustme.CA()


def base64_of(blob: trustme.Blob) -> str:
    return base64.b64encode(blob.bytes()).decode()


TRUSTED = {"certificate-authority-data": base64_of(AUTHORITY.cert_pem)}


async def answer_with_caller(request: Request, response: Response) -> None:
    """Name in the answer whom the client's certificate and token stand for."""
    subject = dict(pair for part in (request.certificate or {}).get("subject", ()) for pair in part)
    labels = {"certificate": subject.get("commonName", ""), "authorization": request.header("authorization") or ""}
    await response.send_json(200, {"metadata": {"name": "n", "labels": labels}})


@asynccontextmanager
async def tls_server(
    *names: str, asks_for_certificate: bool = False, handler: Any = answer_with_caller
) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(*names).configure_cert(context)
    if asks_for_certificate:
        AUTHORITY.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
    async with http_server(handler, context) as url:
        yield url


async def call(folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any] | None = None) -> Mapping[str, str]:
    """Get a node with these credentials and return whom the server took us for."""
    credentials = load_credentials(write_kubeconfig(folder / "config", cluster=cluster, user=user))
    async with KubeClient(credentials) as client:
        return (await client.get(NODES, "", "n")).metadata.labels


def test_trusts_the_authority_of_the_cluster(tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.crt")

    async def main() -> None:
        async with tls_server("127.0.0.1") as url:
            await call(tmp_path, {"server": url, **TRUSTED})
            await call(tmp_path, {"server": url, "certificate-authority": "ca.crt"})

    asyncio.run(main())


def test_takes_certificates_as_go_does_with_text_between_them_and_folded_base64(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes("# Zoë's\n".encode("latin-1") + AUTHORITY.cert_pem.bytes())
    folded = base64.encodebytes(AUTHORITY.cert_pem.bytes()).decode()

    async def main() -> None:
        async with tls_server("127.0.0.1") as url:
            await call(tmp_path, {"server": url, "certificate-authority": "ca.crt"})
            await call(tmp_path, {"server": url, "certificate-authority-data": folded})

    asyncio.run(main())


def test_a_name_or_token_need_not_be_ascii(tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def handler(request: Request, response: Response) -> None:
        seen[:] = [request.header("authorization"), request.header("impersonate-user")]
        await answer_with_caller(request, response)

    async def main() -> None:
        async with tls_server("127.0.0.1", handler=handler) as url:
            await call(tmp_path, {"server": url, **TRUSTED}, {"token": "T€", "as": "jörg"})

    asyncio.run(main())
    assert seen == ["Bearer T€", "jörg"]


def test_trusts_no_other_authority(tmp_path: Path) -> None:
    async def main() -> None:
        async with tls_server("127.0.0.1") as url:
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await call(tmp_path, {"server": url})
            stranger = {"certificate-authority-data": base64_of(trustme.CA().cert_pem)}
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await call(tmp_path, {"server": url, **stranger})

    asyncio.run(main())


class RotatingServer:
    """An API server whose certificate can be replaced; each request has a connection of its own, unless told otherwise.

    Requests of "slow" are answered once they may be.
    """

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.is_open_ended = False
        self.connections: list[object] = []
        self.may_answer = asyncio.Event()
        self.slow_ones = 0

    def show(self, authority: trustme.CA) -> None:
        authority.issue_cert("127.0.0.1").configure_cert(self.context)

    async def __call__(self, request: Request, response: Response) -> None:
        self.connections.append(asyncio.current_task())
        if request.path.endswith("slow"):
            self.slow_ones += 1
            await self.may_answer.wait()
        headers = {} if self.is_open_ended else {"Connection": "close"}
        await response.send_json(200, {"metadata": {"name": "n"}}, headers)


@asynccontextmanager
async def in_cluster(
    server: RotatingServer, folder: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> AsyncIterator[KubeClient]:
    """A client that runs in a pod with a service account in this folder."""
    (folder / "token").write_text("T")
    async with http_server(server, server.context) as url:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", url.rpartition(":")[2])
        async with KubeClient(load_credentials(service_account=folder, wall_clock=clock)) as client:
            yield client


RUNS = (asyncio.run, uvloop.run)


@pytest.mark.parametrize("run", RUNS)
def test_after_the_authority_was_replaced_the_new_one_is_trusted_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Any], object]
) -> None:
    old, new, clock = trustme.CA(), trustme.CA(), Clock()
    old.cert_pem.write_to_path(tmp_path / "ca.crt")

    async def main() -> None:
        server = RotatingServer()
        server.show(old)
        async with in_cluster(server, tmp_path, monkeypatch, clock) as client:
            await client.get(NODES, "", "n")
            server.show(new)
            clock.pass_seconds(10)
            for _ in range(2):
                with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                    await client.get(NODES, "", "n")
            new.cert_pem.write_to_path(tmp_path / "ca.crt")
            clock.pass_seconds(1)
            await client.get(NODES, "", "n")

    run(main())


def test_where_both_authorities_are_trusted_for_a_while_no_request_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, clock = trustme.CA(), trustme.CA(), Clock()
    old.cert_pem.write_to_path(tmp_path / "ca.crt")

    async def main() -> None:
        server = RotatingServer()
        server.show(old)
        async with in_cluster(server, tmp_path, monkeypatch, clock) as client:
            await client.get(NODES, "", "n")
            new.cert_pem.write_to_path(tmp_path / "ca.crt", append=True)
            clock.pass_seconds(60)
            await client.get(NODES, "", "n")
            server.show(new)
            await client.get(NODES, "", "n")
            new.cert_pem.write_to_path(tmp_path / "ca.crt")
            clock.pass_seconds(60)
            await client.get(NODES, "", "n")
            server.show(old)
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(NODES, "", "n")

    asyncio.run(main())


def test_when_the_authority_is_replaced_requests_under_way_go_on_and_later_ones_have_new_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, clock = trustme.CA(), trustme.CA(), Clock()
    old.cert_pem.write_to_path(tmp_path / "ca.crt")

    async def main() -> None:
        server = RotatingServer()
        server.is_open_ended = True
        server.show(old)
        async with in_cluster(server, tmp_path, monkeypatch, clock) as client, asyncio.timeout(20):
            slow = asyncio.create_task(client.get(NODES, "", "slow"))
            while not server.slow_ones:
                await asyncio.sleep(0.001)
            for _ in range(2):
                await client.get(NODES, "", "n")
            new.cert_pem.write_to_path(tmp_path / "ca.crt")
            server.show(new)
            clock.pass_seconds(60)
            await client.get(NODES, "", "n")
            server.may_answer.set()
            await slow
            await client.get(NODES, "", "n")
        first, second, third, fourth, fifth = server.connections
        assert first != second == third != fourth == fifth

    asyncio.run(main())


def test_trusts_anyone_where_told_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with tls_server("elsewhere.example.com") as url:
            await call(tmp_path, {"server": url, "insecure-skip-tls-verify": True})

    asyncio.run(main())


def test_the_certificate_must_have_the_servers_name_or_the_one_that_is_configured(tmp_path: Path) -> None:
    async def main() -> None:
        async with tls_server("api.example.com") as url:
            with pytest.raises(UnreachableError, match="IP address mismatch"):
                await call(tmp_path, {"server": url, **TRUSTED})
            await call(tmp_path, {"server": url, **TRUSTED, "tls-server-name": "api.example.com"})
            with pytest.raises(UnreachableError, match="Hostname mismatch"):
                await call(tmp_path, {"server": url, **TRUSTED, "tls-server-name": "other.example.com"})

    asyncio.run(main())


def test_shows_the_client_certificate_from_data_or_files(tmp_path: Path) -> None:
    me = AUTHORITY.issue_cert("scheduler@example.com", common_name="scheduler")
    me.cert_chain_pems[0].write_to_path(tmp_path / "me.crt")
    me.private_key_pem.write_to_path(tmp_path / "me.key")
    data = {
        "client-certificate-data": base64_of(me.cert_chain_pems[0]),
        "client-key-data": base64_of(me.private_key_pem),
    }

    async def main() -> None:
        async with tls_server("127.0.0.1", asks_for_certificate=True) as url:
            cluster = {"server": url, **TRUSTED}
            assert (await call(tmp_path, cluster))["certificate"] == ""
            assert (await call(tmp_path, cluster, data))["certificate"] == "scheduler"
            files = {"client-certificate": "me.crt", "client-key": "me.key"}
            assert (await call(tmp_path, cluster, files))["certificate"] == "scheduler"
            both = await call(tmp_path, cluster, {**files, "token": "T"})
            assert both == {"certificate": "scheduler", "authorization": "Bearer T"}

    asyncio.run(main())


def test_a_client_certificate_from_an_exec_plugin_is_replaced_when_it_is_rejected(tmp_path: Path) -> None:
    for number in (1, 2):
        me = AUTHORITY.issue_cert("scheduler@example.com", common_name=f"scheduler-{number}")
        answer = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "clientCertificateData": me.cert_chain_pems[0].bytes().decode(),
                "clientKeyData": me.private_key_pem.bytes().decode(),
            },
        }
        (tmp_path / f"answer-{number}").write_text(json.dumps(answer))
    # The plugin gives its first answer once.
    script = (
        "import pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "first = folder / 'answer-1'\n"
        "print((first if first.exists() else folder / 'answer-2').read_text())\n"
        "first.unlink(missing_ok=True)\n"
    )
    plugin = {
        "command": sys.executable,
        "args": ["-c", script, str(tmp_path)],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "IfAvailable",
    }
    callers: list[str] = []

    async def handler(request: Request, response: Response) -> None:
        assert request.certificate
        callers.append(dict(pair for part in request.certificate["subject"] for pair in part)["commonName"])
        if callers[-1] == "scheduler-1" and len(callers) > 1:
            await response.send_json(401, {"reason": "Unauthorized", "message": "the certificate has expired"})
        else:
            await answer_with_caller(request, response)

    async def main() -> None:
        async with tls_server("127.0.0.1", asks_for_certificate=True, handler=handler) as url:
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, **TRUSTED}, user={"exec": plugin})
            async with KubeClient(load_credentials(path)) as client:
                for _ in range(3):
                    await client.get(NODES, "", "n")

    asyncio.run(main())
    assert callers == ["scheduler-1", "scheduler-1", "scheduler-2", "scheduler-2"]


def test_an_exec_plugin_that_answers_with_a_certificate_and_another_key_is_asked_again(tmp_path: Path) -> None:
    me, other = (AUTHORITY.issue_cert("me@example.com", common_name=name) for name in ("scheduler", "other"))

    def answer_with(key: trustme.Blob) -> None:
        status = {
            "clientCertificateData": me.cert_chain_pems[0].bytes().decode(),
            "clientKeyData": key.bytes().decode(),
        }
        answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (tmp_path / "answer").write_text(json.dumps(answer))

    plugin = {
        "command": "cat",
        "args": [str(tmp_path / "answer")],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
    }

    async def main() -> None:
        async with tls_server("127.0.0.1", asks_for_certificate=True) as url:
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, **TRUSTED}, user={"exec": plugin})
            async with KubeClient(load_credentials(path)) as client:
                answer_with(other.private_key_pem)
                for _ in range(2):
                    with pytest.raises(CredentialsError, match="belong together"):
                        await client.get(NODES, "", "n")
                answer_with(me.private_key_pem)
                assert (await client.get(NODES, "", "n")).metadata.labels["certificate"] == "scheduler"

    asyncio.run(main())


def test_a_certificate_and_a_key_that_are_replaced_one_after_the_other_are_used_once_they_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    certificates = [AUTHORITY.issue_cert("me@example.com", common_name=f"scheduler-{number}") for number in (1, 2)]
    valid = ["scheduler-1"]

    async def handler(request: Request, response: Response) -> None:
        assert request.certificate
        if dict(pair for part in request.certificate["subject"] for pair in part)["commonName"] in valid:
            await answer_with_caller(request, response)
        else:
            await response.send_json(401, {"reason": "Unauthorized", "message": "the certificate has expired"})

    async def main() -> None:
        for part, name in ((certificates[0].cert_chain_pems[0], "me.crt"), (certificates[0].private_key_pem, "me.key")):
            part.write_to_path(tmp_path / name)
        async with tls_server("127.0.0.1", asks_for_certificate=True, handler=handler) as url:
            user = {"client-certificate": "me.crt", "client-key": "me.key"}
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, **TRUSTED}, user=user)
            async with KubeClient(load_credentials(path, wall_clock=clock)) as client:
                await client.get(NODES, "", "n")
                certificates[1].private_key_pem.write_to_path(tmp_path / "me.key")
                clock.pass_seconds(60)
                # The old ones are valid still.
                assert (await client.get(NODES, "", "n")).metadata.labels["certificate"] == "scheduler-1"
                valid[:] = ["scheduler-2"]
                for _ in range(2):
                    with pytest.raises(ApiError, match="401"):
                        await client.get(NODES, "", "n")
                certificates[1].cert_chain_pems[0].write_to_path(tmp_path / "me.crt")
                assert (await client.get(NODES, "", "n")).metadata.labels["certificate"] == "scheduler-2"

    asyncio.run(main())
    assert [text for text in caplog.messages if "belong together" in text] == caplog.messages
    assert len(caplog.messages) == 1


def test_a_rotated_token_file_is_used_after_a_refusal(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def handler(request: Request, response: Response) -> None:
        if request.header("authorization") == "Bearer new":
            await answer_with_caller(request, response)
        else:
            await response.send_json(401, {"reason": "Unauthorized", "message": "Unauthorized"})

    async def main() -> None:
        async with tls_server("127.0.0.1", handler=handler) as url:
            path = write_kubeconfig(
                tmp_path / "config", cluster={"server": url, **TRUSTED}, user={"tokenFile": "token"}
            )
            async with KubeClient(load_credentials(path)) as client:
                with pytest.raises(ApiError, match="401"):
                    await client.get(NODES, "", "n")
                token.write_text("new")
                assert (await client.get(NODES, "", "n")).metadata.labels["authorization"] == "Bearer new"

    asyncio.run(main())


@asynccontextmanager
async def proxy_of(scheme: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """A proxy; where it speaks TLS, another authority vouches for it than for the API server, one of the system's."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "system.crt")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "system.crt"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    AUTHORITY.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    async with proxy_server(scheme, context if scheme == "https" else None) as proxy:
        yield proxy


SCHEMES = ("http", "https", "socks5")
# The event loop of the service: that of Python 3.11 stumbles where TLS within TLS fails.


@pytest.mark.parametrize("scheme", SCHEMES)
def test_goes_through_the_proxy_of_the_cluster_and_still_checks_the_configured_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    async def main() -> None:
        async with tls_server("api.example.com") as url, proxy_of(scheme, tmp_path, monkeypatch) as proxy:
            cluster = {"server": url, **TRUSTED, "proxy-url": proxy.url, "tls-server-name": "api.example.com"}
            assert (await call(tmp_path, cluster, {"token": "T"}))["authorization"] == "Bearer T"
            with pytest.raises(UnreachableError, match="Hostname mismatch"):
                await call(tmp_path, cluster | {"tls-server-name": "other.example.com"})
            assert set(proxy.targets) == {url.removeprefix("https://")}
            assert set(proxy.credentials) == {""}

    uvloop.run(main())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_proxy_learns_who_uses_it_and_not_who_calls_the_api_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    me = AUTHORITY.issue_cert("scheduler@example.com", common_name="scheduler")
    user = {
        "client-certificate-data": base64_of(me.cert_chain_pems[0]),
        "client-key-data": base64_of(me.private_key_pem),
        "token": "T",
    }

    async def main() -> None:
        async with (
            tls_server("localhost", asks_for_certificate=True) as url,
            proxy_of(scheme, tmp_path, monkeypatch) as proxy,
        ):
            server = url.replace("127.0.0.1", "localhost")
            # The library for SOCKS sends ASCII only.
            user_name, password = ("anna", "p@ss") if scheme == "socks5" else ("zo\u00eb", "p@\u0161s")
            proxy_url = proxy.url_with(quote(user_name), quote(password))
            cluster = {"server": server, **TRUSTED, "proxy-url": proxy_url}
            assert await call(tmp_path, cluster, user) == {"certificate": "scheduler", "authorization": "Bearer T"}
            # The name is the proxy's to look up.
            assert proxy.targets == [server.removeprefix("https://")]
            assert proxy.credentials == [f"{user_name}:{password}"]
            assert proxy.shown == [None]

    uvloop.run(main())


def test_trusts_no_proxy_that_no_authority_of_the_system_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with tls_server("127.0.0.1") as url, proxy_of("https", tmp_path, monkeypatch) as proxy:
            trustme.CA().cert_pem.write_to_path(tmp_path / "system.crt")
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await call(tmp_path, {"server": url, **TRUSTED, "proxy-url": proxy.url})
            assert proxy.targets == []

    uvloop.run(main())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_proxy_that_is_not_there_is_unreachable(tmp_path: Path, scheme: str) -> None:
    async def main() -> None:
        async with tls_server("127.0.0.1") as url:
            async with proxy_server(scheme) as proxy:
                pass
            with pytest.raises(UnreachableError, match=r"Connection refused$"):
                await call(tmp_path, {"server": url, **TRUSTED, "proxy-url": proxy.url})

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_without_tls_a_proxy_is_used_as_well(tmp_path: Path, scheme: str) -> None:
    async def main() -> None:
        async with http_server(answer_with_caller) as url, proxy_server(scheme) as proxy:
            await call(tmp_path, {"server": url, "proxy-url": proxy.url_with("anna", "secret")})
            assert proxy.targets == [url.removeprefix("http://")]
            assert proxy.credentials == ["anna:secret"]

    asyncio.run(main())


def test_a_certificate_and_key_that_do_not_fit_are_refused() -> None:
    one, two = (AUTHORITY.issue_cert("a@example.com") for _ in range(2))
    with pytest.raises(CredentialsError, match=r"^user u: the client certificate and its key .*MISMATCH"):
        client_context(ServerTrust(), one.cert_chain_pems[0].bytes(), two.private_key_pem.bytes(), "user u")


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password() -> None:
    me = AUTHORITY.issue_cert("a@example.com")
    encrypted = load_pem_private_key(me.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    with pytest.raises(CredentialsError, match="must be PEM, unencrypted"):
        client_context(ServerTrust(), me.cert_chain_pems[0].bytes(), encrypted, "user u")


def test_without_a_temporary_folder_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    me = AUTHORITY.issue_cert("a@example.com")
    with pytest.raises(CredentialsError, match="set TMPDIR"):
        client_context(ServerTrust(), me.cert_chain_pems[0].bytes(), me.private_key_pem.bytes(), "user u")

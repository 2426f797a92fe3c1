"""TLS of the service against real clients, on both event loops."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from extender_service.seams import WallClock
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSError, TLSFiles, _names
from tests.support.servers.certificates import client_context, issue, mount, overwrite, pem_files, rename_over

Run = Callable[[Coroutine[Any, Any, None]], None]

AUTHORITY = trustme.CA()
OTHER_AUTHORITY = trustme.CA()
SERVER = issue(AUTHORITY, "127.0.0.1")
SCHEDULER = issue(AUTHORITY, "scheduler.example.com", common_name="system:kube-scheduler")


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on an event loop, within a time."""

    def run_it(main: Coroutine[Any, Any, None]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(60):
                await main

        request.param(in_time())

    return run_it


class Echo(asyncio.Protocol):
    """Answers what it gets, and notes it."""

    def __init__(self, connections: list["Echo"]) -> None:
        self.got = b""
        self.ended = asyncio.Event()
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._connections.append(self)

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class Server:
    """A server with some files; `connections` are those that were let in."""

    def __init__(self, certificates: ServingCertificates, port: int, connections: list[Echo]) -> None:
        self.counts = certificates.refusals.counts
        self.port = port
        self.connections = connections

    async def connect(self, context: ssl.SSLContext) -> "Client":
        return await asyncio.to_thread(Client, self.port, context)


class Client:
    """A blocking client, so that what it sees is OpenSSL's own."""

    def __init__(self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
        except BaseException:
            plain.close()
            raise

    async def ask(self) -> bytes:
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> bytes:
        self.socket.sendall(b"hello")
        return self.socket.recv(100)

    def shown(self) -> bytes | None:
        """The server's certificate, DER."""
        return self.socket.getpeercert(binary_form=True)


@asynccontextmanager
async def serving(folder: Path, wall_clock: WallClock = time.time, **facts: Any) -> AsyncIterator[Server]:
    certificates = ServingCertificates(tls_files(folder, **facts), Refusals(), poll_seconds=0.01, wall_clock=wall_clock)
    connections: list[Echo] = []
    listening = await asyncio.get_running_loop().create_server(
        lambda: Echo(connections), "127.0.0.1", 0, ssl=certificates.context
    )
    following = asyncio.create_task(certificates.follow())
    try:
        yield Server(certificates, listening.sockets[0].getsockname()[1], connections)
    finally:
        following.cancel()
        listening.close()
        for connection in connections:
            connection.transport.abort()
            await connection.ended.wait()


def tls_files(folder: Path, **facts: Any) -> TLSFiles:
    return TLSFiles(folder / "tls.crt", folder / "tls.key", **{"client_ca": folder / "ca.crt", **facts})


async def let_in(server: Server, context: ssl.SSLContext) -> bool:
    """Whether a client gets an answer."""
    try:
        client = await server.connect(context)
    except OSError:
        return False
    try:
        return await client.ask() == b"hello"
    except OSError:
        return False
    finally:
        client.socket.close()


def certificate(leaf: trustme.LeafCert) -> bytes:
    """DER."""
    return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())


async def becomes(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "allowed",
    [
        [],
        ["system:kube-scheduler"],
        ["scheduler.example.com"],
        ["scheduler@example.com"],
        ["somebody", "system:kube-scheduler"],
    ],
)
def test_a_known_client_with_an_allowed_name_is_let_in(run: Run, tmp_path: Path, allowed: list[str]) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    names = ("scheduler.example.com", "scheduler@example.com")
    shown = issue(AUTHORITY, *names, common_name="system:kube-scheduler")

    async def main() -> None:
        async with serving(tmp_path, allowed_names=frozenset(allowed)) as server:
            assert await let_in(server, client_context(AUTHORITY, shown))
            assert not any(server.counts.values())

    run(main())


def for_servers_only(ca: trustme.CA) -> trustme.LeafCert:
    """A certificate as a web server of the same authority may have it."""
    good = issue(ca, "scheduler.example.com")
    parsed = x509.load_pem_x509_certificate(good.cert_chain_pems[0].bytes())
    built = x509.CertificateBuilder(
        parsed.issuer,
        parsed.subject,
        parsed.public_key(),
        parsed.serial_number,
        parsed.not_valid_before_utc,
        parsed.not_valid_after_utc,
    )
    for extension in parsed.extensions:
        if not isinstance(extension.value, x509.ExtendedKeyUsage):
            built = built.add_extension(extension.value, extension.critical)
    built = built.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    key = load_pem_private_key(ca.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    signed = built.sign(key, SHA256())
    return trustme.LeafCert(good.private_key_pem.bytes(), signed.public_bytes(Encoding.PEM), [])


STRANGERS: dict[str, tuple[trustme.LeafCert | None, str]] = {
    "without": (None, "certificate"),
    "expired": (issue(AUTHORITY, "scheduler.example.com", expired=True), "certificate"),
    "other authority": (issue(OTHER_AUTHORITY, "scheduler.example.com"), "certificate"),
    "a server's": (for_servers_only(AUTHORITY), "certificate"),
    "other name": (issue(AUTHORITY, "kubelet.example.com", common_name="kubelet"), "name"),
    "a name that begins like an allowed one": (issue(AUTHORITY, "scheduler.example.com.evil.test"), "name"),
    "an allowed name as its organization": (AUTHORITY.issue_cert("a.test", organization_name="kube"), "name"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_strangers_are_refused_before_their_first_request(
    run: Run, tmp_path: Path, stranger: str, version: ssl.TLSVersion
) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    shown, reason = STRANGERS[stranger]
    context = client_context(AUTHORITY, shown)
    context.minimum_version = context.maximum_version = version

    async def main() -> None:
        async with serving(tmp_path, allowed_names=frozenset({"scheduler.example.com", "kube"})) as server:
            assert not await let_in(server, context)
            assert not server.connections
            assert {name: count for name, count in server.counts.items() if count} == {reason: 1}
            assert await let_in(server, client_context(AUTHORITY, SCHEDULER))

    run(main())


@pytest.mark.parametrize(
    ("stranger", "alert"),
    [("without", "certificate required"), ("expired", "certificate expired"), ("other authority", "unknown ca")],
)
def test_refused_clients_are_told_why(run: Run, tmp_path: Path, stranger: str, alert: str) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))

    async def main() -> None:
        async with serving(tmp_path) as server:
            client = await server.connect(client_context(AUTHORITY, STRANGERS[stranger][0]))
            with pytest.raises(ssl.SSLError) as raised:
                await asyncio.to_thread(client.socket.recv, 100)
            assert alert in str(raised.value).lower().replace("_", " ")
            client.socket.close()

    run(main())


def test_a_refused_client_that_goes_on_talking_is_hung_up_on(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))

    async def main() -> None:
        async with serving(tmp_path) as server:
            client = await server.connect(client_context(AUTHORITY))

            def talk() -> None:
                with client.socket:
                    while True:
                        client.socket.send(b"hello")

            with pytest.raises((ConnectionError, ssl.SSLError)):
                await asyncio.to_thread(talk)
            assert not server.connections

    run(main())


def test_plain_http_is_refused(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))

    async def main() -> None:
        async with serving(tmp_path) as server:

            def ask() -> bytes:
                with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
                    plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    try:
                        return plain.recv(1000)
                    except ConnectionError:
                        return b""

            assert await asyncio.to_thread(ask) == b""
            assert not server.connections
            assert server.counts["protocol"] == 1

    run(main())


def test_an_old_version_is_refused(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    context = client_context(AUTHORITY, SCHEDULER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def main() -> None:
        async with serving(tmp_path, minimum_version=ssl.TLSVersion.TLSv1_3) as server:
            with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
                await server.connect(context)
        async with serving(tmp_path) as server:
            assert await let_in(server, context)

    run(main())


def test_without_client_ca_anyone_is_let_in(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER))

    async def main() -> None:
        async with serving(tmp_path, client_ca=None) as server:
            assert await let_in(server, client_context(AUTHORITY))

    run(main())


def test_an_intermediate_authority_can_be_the_one_to_trust(run: Run, tmp_path: Path) -> None:
    intermediate = AUTHORITY.create_child_ca()
    overwrite(tmp_path, pem_files(SERVER, intermediate))

    async def main() -> None:
        async with serving(tmp_path) as server:
            assert await let_in(server, client_context(AUTHORITY, issue(intermediate, "a.test")))
            assert not await let_in(server, client_context(AUTHORITY, SCHEDULER))

    run(main())


@pytest.mark.parametrize("comment", [b"# \xc3\xa9\n", b"# \xe9\n"], ids=["UTF-8", "Latin-1"])
def test_a_file_of_authorities_may_have_text_in_any_encoding(run: Run, tmp_path: Path, comment: bytes) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    (tmp_path / "ca.crt").write_bytes(comment + AUTHORITY.cert_pem.bytes())

    async def main() -> None:
        async with serving(tmp_path) as server:
            assert await let_in(server, client_context(AUTHORITY, SCHEDULER))
            assert not await let_in(server, client_context(AUTHORITY))

    run(main())


def test_every_connection_is_looked_at_anew(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    context = client_context(AUTHORITY, SCHEDULER)

    async def main() -> None:
        async with serving(tmp_path) as server:
            first = await server.connect(context)
            await first.ask()
            session = first.socket.session
            first.socket.close()
            again = await asyncio.to_thread(Client, server.port, context, session)
            assert not again.socket.session_reused
            again.socket.close()

    run(main())


def test_a_session_is_resumed_until_its_certificate_expires(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    now = datetime.now(UTC)
    shown = AUTHORITY.issue_cert("scheduler.example.com", not_after=now + timedelta(days=2))
    context = client_context(AUTHORITY, shown)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    clock = [now.timestamp()]

    async def main() -> None:
        async with serving(tmp_path, wall_clock=lambda: clock[0]) as server:

            async def ask_again(session: ssl.SSLSession) -> tuple[bool, bool]:
                client = await asyncio.to_thread(Client, server.port, context, session)
                with client.socket:
                    try:
                        return bool(client.socket.session_reused), await client.ask() == b"hello"
                    except OSError:
                        return bool(client.socket.session_reused), False

            first = await server.connect(context)
            assert await first.ask() == b"hello"
            session = first.socket.session
            assert session is not None
            first.socket.close()
            assert await ask_again(session) == (True, True)
            clock[0] += timedelta(days=2).total_seconds()
            assert await ask_again(session) == (True, False)
            assert len(server.connections) == 2
            assert server.counts["certificate"] == 1
            # The client is not refused for as long as it has the session: it shows its certificate again. Of a full
            # handshake, OpenSSL's own clock decides.
            while (await ask_again(session)) != (False, True):
                await asyncio.sleep(0.01)
            assert "the certificates have changed" not in caplog.messages

    with caplog.at_level(logging.INFO):
        run(main())


@pytest.mark.parametrize("write", [mount, overwrite, rename_over])
def test_a_new_certificate_is_for_new_connections_and_the_open_ones_go_on(
    run: Run, tmp_path: Path, write: Callable[[Path, Mapping[str, bytes]], None]
) -> None:
    write(tmp_path / "tls", pem_files(SERVER, AUTHORITY))
    context = client_context(AUTHORITY, SCHEDULER)

    async def main() -> None:
        async with serving(tmp_path / "tls") as server:
            old = await server.connect(context)
            for _ in range(2):
                before = old.shown()
                renewed = issue(AUTHORITY, "127.0.0.1")
                write(tmp_path / "tls", pem_files(renewed, AUTHORITY))

                async def shows_the_new_one(renewed: trustme.LeafCert = renewed) -> bool:
                    new = await server.connect(context)
                    assert await new.ask() == b"hello"
                    shown = new.shown()
                    new.socket.close()
                    return shown == certificate(renewed)

                await becomes(shows_the_new_one)
                assert await old.ask() == b"hello"
                assert old.shown() == before
            old.socket.close()

    run(main())


def test_a_new_client_authority_is_for_new_connections_and_the_open_ones_go_on(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    old_context = client_context(AUTHORITY, SCHEDULER)
    new_context = client_context(AUTHORITY, issue(OTHER_AUTHORITY, "scheduler.example.com"))

    async def main() -> None:
        async with serving(tmp_path) as server:
            old = await server.connect(old_context)
            assert await old.ask() == b"hello"
            overwrite(tmp_path, pem_files(SERVER, AUTHORITY, OTHER_AUTHORITY))
            await becomes(lambda: let_in(server, new_context))
            assert await let_in(server, old_context)
            overwrite(tmp_path, pem_files(SERVER, OTHER_AUTHORITY))

            async def keeps_the_old_ones_out() -> bool:
                return not await let_in(server, old_context)

            await becomes(keeps_the_old_ones_out)
            assert await let_in(server, new_context)
            assert await old.ask() == b"hello"
            old.socket.close()

    run(main())


def test_authorities_that_are_invited_while_files_are_loaded_stay_invited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(tmp_path, pem_files(SERVER))
    certificates = ServingCertificates(tls_files(tmp_path, client_ca=None), Refusals(), poll_seconds=0.0)
    renewed = issue(AUTHORITY, "127.0.0.1")
    loaded = 0

    async def while_loading(load: Callable[[], object]) -> object:
        nonlocal loaded
        newest = load()
        if newest is not None:
            loaded += 1
            certificates.invite(AUTHORITY.cert_pem.bytes().decode())
        return newest

    async def main() -> None:
        following = asyncio.create_task(certificates.follow())
        overwrite(tmp_path, pem_files(renewed))
        for _ in range(10):
            await asyncio.sleep(0)
        following.cancel()
        assert loaded == 2
        assert certificates.context.newest.verify_mode == ssl.CERT_OPTIONAL

    monkeypatch.setattr(asyncio, "to_thread", while_loading)
    asyncio.run(main())


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"no PEM", pytest.param(issue(AUTHORITY, "127.0.0.1").private_key_pem.bytes(), id="another key")],
)
def test_files_that_cannot_be_used_leave_the_last_good_ones(
    tmp_path: Path, broken: str, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    context = client_context(AUTHORITY, SCHEDULER)

    def warnings() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]

    async def main() -> None:
        async with serving(tmp_path) as server, asyncio.timeout(60):
            if content is None:
                (tmp_path / broken).unlink()
            else:
                (tmp_path / broken).write_bytes(content)
            while not warnings():
                await asyncio.sleep(0.01)
            assert await let_in(server, context)
            await asyncio.sleep(0.1)
            assert len(warnings()) == 1  # not one each time it is tried
            assert broken in warnings()[0]

            renewed = issue(AUTHORITY, "127.0.0.1")
            overwrite(tmp_path, pem_files(renewed, AUTHORITY))

            async def shows_the_new_one() -> bool:
                client = await server.connect(context)
                shown = client.shown()
                client.socket.close()
                return shown == certificate(renewed)

            await becomes(shows_the_new_one)

    uvloop.run(main())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tls.crt", None, "--tls-cert-file: {path}: No such file or directory"),
        ("tls.key", None, "--tls-private-key-file: {path}: No such file or directory"),
        ("ca.crt", None, "--client-ca-file: {path}: No such file or directory"),
        ("tls.crt", b"none", "--tls-cert-file, --tls-private-key-file: {path} and .* must be PEM"),
        pytest.param(
            "tls.key", SCHEDULER.private_key_pem.bytes(), "belong together .KEY_VALUES_MISMATCH", id="another key"
        ),
        ("ca.crt", b"", "--client-ca-file: {path} has no PEM certificate"),
    ],
)
def test_what_cannot_be_used_is_told_at_the_start(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TLSError, match=says.format(path=tmp_path / name)):
        ServingCertificates(tls_files(tmp_path), Refusals())


def test_a_connection_ends_though_the_client_never_says_goodbye(run: Run, tmp_path: Path) -> None:
    overwrite(tmp_path, pem_files(SERVER, AUTHORITY))

    async def main() -> None:
        async with serving(tmp_path) as server, asyncio.timeout(10):
            client = await server.connect(client_context(AUTHORITY, SCHEDULER))
            assert await client.ask() == b"hello"
            server.connections[0].transport.close()
            await server.connections[0].ended.wait()
            assert await asyncio.to_thread(client.socket.recv, 100) == b""  # it was told, though
            client.socket.close()

    run(main())


def test_uris_are_names() -> None:
    assert _names({"subjectAltName": (("URI", "spiffe://a/b"), ("DirName", ((("commonName", "c"),),)))}) == [
        "spiffe://a/b"
    ]

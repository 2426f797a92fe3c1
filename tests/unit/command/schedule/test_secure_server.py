"""What stops the scheduler's HTTPS at its start, and whose certificates count while it serves.

tests/e2e/scheduler/test_secure_serving.py has the rest.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from extender_service.command import cli
from extender_service.command.schedule import secure_server
from extender_service.command.schedule.schedule_options import schedule_options
from extender_service.command.schedule.secure_server import SecureListener
from extender_service.command.start_error import StartError
from extender_service.seams import THIS_MACHINE
from extender_service.serving.callers import known_authorities, reviews
from tests.support.servers import http_server
from tests.support.servers.free_ports import free_port
from tests.support.servers.kubeconfig_files import write_kubeconfig

OPTIONS = ("--client-ca-file", "--requestheader-client-ca-file")
MASTER = {"authenticated": True, "user": {"username": "a", "groups": ["system:masters"]}}
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "has no PEM certificate"),
        (b"\xff\xfe", "has no PEM certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "has no PEM certificate"),
    ],
)
def test_a_file_of_authorities_that_vouches_for_nobody_is_refused(
    option: str, content: bytes | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authorities, kubeconfig = tmp_path / "authorities.pem", tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    if content is not None:
        authorities.write_bytes(content)
    arguments = [f"--kubeconfig={kubeconfig}", "--secure-port=10259", f"{option}={authorities}"]
    assert cli.main(["schedule", *arguments]) != 0
    error = capsys.readouterr().err
    assert option in error
    assert problem in error


def test_by_default_it_listens_on_all_addresses_of_both_ip_families() -> None:
    port = free_port()
    options = schedule_options(cli.parser().parse_args(["schedule", f"--secure-port={port}"]))
    with SecureListener(options, THIS_MACHINE):
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port)).close()


def test_its_machine_opens_the_socket() -> None:
    port = free_port()
    arguments = ["schedule", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    opened: list[tuple[str, int]] = []

    def note_and_listen(address: tuple[str, int], **how: Any) -> socket.socket:
        opened.append(address)
        return socket.create_server(address, **how)

    machine = replace(THIS_MACHINE, listen=note_and_listen)
    with SecureListener(schedule_options(cli.parser().parse_args(arguments)), machine):
        assert opened == [("127.0.0.1", port)]


def test_a_port_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        arguments = ["schedule", "--bind-address=127.0.0.1", f"--secure-port={taken.getsockname()[1]}"]
        with pytest.raises(StartError) as raised:
            SecureListener(schedule_options(cli.parser().parse_args(arguments)), THIS_MACHINE)
    said = f"--secure-port: {where} is in use by another program; give another port, or 0 for none"
    assert str(raised.value) == said


CONFIGURED, PUBLISHED = trustme.CA(), trustme.CA()
COMMENTS = {"UTF-8": b"# \xc3\xa9\n", "Latin-1": b"# \xe9\n"}
# A proxy that names this user may do everything, as may a client whose certificate has this group.
AS_MASTER = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n"


class Answer(NamedTuple):
    """A status (0: no answer), and the session of TLS with whether it was resumed."""

    status: int
    session: ssl.SSLSession | None = None
    is_resumed: bool = False


@dataclass
class Caller:
    """A client with a certificate of an authority, which asks for a path that only system:masters may see."""

    context: ssl.SSLContext
    headers: str = ""

    @property
    def request(self) -> bytes:
        return f"GET /closed HTTP/1.1\r\nHost: localhost\r\n{self.headers}Connection: close\r\n\r\n".encode()

    async def ask(self, port: int, session: ssl.SSLSession | None = None) -> Answer:
        return await asyncio.to_thread(self._ask, port, session)

    async def ask_and_stay(self, port: int) -> ssl.SSLSocket:
        """Send the request, and return the connection."""
        return await asyncio.to_thread(self._ask_and_stay, port)

    def _ask_and_stay(self, port: int) -> ssl.SSLSocket:
        encrypted = self.context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30))
        encrypted.sendall(self.request)
        return encrypted

    def _ask(self, port: int, session: ssl.SSLSession | None) -> Answer:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            try:
                with self.context.wrap_socket(plain, session=session) as encrypted:
                    encrypted.sendall(self.request)
                    line = encrypted.recv(1000).split(b" ")
                    status = int(line[1]) if len(line) > 1 else 0
                    return Answer(status, encrypted.session, bool(encrypted.session_reused))
            except OSError:
                return Answer(0)


def with_token(token: str = "a") -> Caller:
    """One without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return Caller(context, f"Authorization: Bearer {token}\r\n")


def caller(option: str, authority: trustme.CA) -> Caller:
    """One for whom the authorities of this option vouch: a client, or a proxy."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    is_client = option == "--client-ca-file"
    issued = authority.issue_cert("a", common_name="a", organization_name="system:masters" if is_client else None)
    issued.configure_cert(context)
    return Caller(context, "" if is_client else AS_MASTER)


@dataclass
class ApiServer:
    """Publishes authorities, and reviews tokens with an answer that is always the same."""

    published: dict[str, str] = field(default_factory=dict)
    token_status: dict[str, object] = field(default_factory=dict)
    reviews: int = 0
    answers: asyncio.Event | None = None

    async def __call__(self, request: http_server.Request, response: http_server.Response) -> None:
        if request.path.endswith("/tokenreviews"):
            self.reviews += 1
            if self.answers is not None:
                await self.answers.wait()
            await response.send_json(201, {"metadata": {}, "status": self.token_status})
            return
        assert request.path.endswith("/configmaps/extension-apiserver-authentication")
        await response.send_json(200, {"metadata": {}, "data": self.published})


@asynccontextmanager
async def serving(folder: Path, *arguments: str, api_server: ApiServer | None = None) -> AsyncIterator[int]:
    """Serve a path of which the API server is not asked; yields the port."""

    def answer(_: Request) -> PlainTextResponse:
        return PlainTextResponse("answer")

    async with asyncio.timeout(60), http_server.http_server(api_server or ApiServer()) as url:
        kubeconfig, port = write_kubeconfig(folder / "kubeconfig", cluster={"server": url}), free_port()
        given = ["schedule", "--bind-address=127.0.0.1", f"--secure-port={port}", *arguments]
        options = cli.parser().parse_args([*given, f"--authentication-kubeconfig={kubeconfig}"])
        with SecureListener(schedule_options(options), THIS_MACHINE) as listener:
            async with listener.serving([Route("/closed", answer)]):
                yield port


def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why authorities could not be read."""
    found = "cannot read which authorities vouch for callers"
    return [each.__dict__["error"] for each in caplog.records if each.getMessage() == found]


@pytest.fixture
def reads_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_authorities, "FOLLOW_SECONDS", 0.01)


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.usefixtures("reads_often")
def test_a_file_of_authorities_may_have_text_in_any_encoding(tmp_path: Path, option: str, comment: str) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(COMMENTS[comment] + pem(CONFIGURED))
    known, new = caller(option, CONFIGURED), caller(option, PUBLISHED)

    async def main() -> None:
        async with serving(tmp_path, f"{option}={file}") as port:
            assert (await known.ask(port)).status == 200
            assert (await new.ask(port)).status == 0
            file.write_bytes(COMMENTS[comment] + pem(PUBLISHED))
            while (await new.ask(port)).status != 200:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_published_authorities_may_have_text_in_any_script(tmp_path: Path) -> None:
    api_server = ApiServer({"client-ca-file": "# é\n" + pem(PUBLISHED).decode()})

    async def main() -> None:
        async with serving(tmp_path, api_server=api_server) as port:
            assert (await caller("--client-ca-file", PUBLISHED).ask(port)).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"", b"# none yet\n", None])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.usefixtures("reads_often")
def test_an_emptied_file_of_authorities_gives_no_trust_to_published_ones(
    tmp_path: Path, option: str, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "authorities.pem"
    file.write_bytes(pem(CONFIGURED))
    known, other = caller(option, CONFIGURED), caller(option, PUBLISHED)
    published = pem(PUBLISHED).decode()
    api_server = ApiServer(
        {
            "client-ca-file" if option == "--client-ca-file" else "requestheader-client-ca-file": published,
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
        }
    )

    async def main() -> None:
        async with serving(tmp_path, f"{option}={file}", api_server=api_server) as port:
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
            while not warnings(caplog):
                assert (await other.ask(port)).status == 0
            problem = "No such file or directory" if content is None else "has no PEM certificate"
            assert option in warnings(caplog)[0]
            assert str(file) in warnings(caplog)[0]
            assert problem in warnings(caplog)[0]
            assert (await known.ask(port)).status == 200
            assert (await other.ask(port)).status == 0
            file.write_bytes(pem(PUBLISHED))
            while (await other.ask(port)).status != 200:
                await asyncio.sleep(0.01)
            assert len(warnings(caplog)) == 1  # not one each time it is read

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


@pytest.mark.parametrize("option", OPTIONS)
def test_a_caller_that_resumes_its_session_is_known_again(tmp_path: Path, option: str) -> None:
    (tmp_path / "authorities.pem").write_bytes(pem(CONFIGURED))
    known = caller(option, CONFIGURED)
    known.context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def main() -> None:
        async with serving(tmp_path, f"{option}={tmp_path / 'authorities.pem'}") as port:
            first = await known.ask(port)
            again = await known.ask(port, first.session)
            assert (first.status, first.is_resumed) == (200, False)
            assert (again.status, again.is_resumed) == (200, True)

    asyncio.run(main())


def test_a_review_of_a_token_that_failed_is_repeated_for_the_next_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api_server = ApiServer(token_status={"authenticated": False, "error": "the webhook does not answer"})

    async def main() -> None:
        async with serving(tmp_path, api_server=api_server) as port:
            assert [(await with_token().ask(port)).status for _ in range(2)] == [401, 401]
            assert api_server.reviews == 2
            api_server.token_status = MASTER
            assert (await with_token().ask(port)).status == 200

    asyncio.run(main())
    assert any("the webhook does not answer" in message for message in caplog.messages)


def test_while_the_api_server_hangs_only_some_callers_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(secure_server, "_MOST_REVIEWS", 2)
    api_server = ApiServer(token_status=MASTER)

    async def main() -> None:
        api_server.answers = asyncio.Event()
        async with serving(tmp_path, api_server=api_server) as port:
            waiting = [asyncio.create_task(with_token(token).ask(port)) for token in ("a", "b")]
            while api_server.reviews < 2:
                await asyncio.sleep(0.01)
            for token in ("a", "c"):
                assert (await with_token(token).ask(port)).status == 401
            api_server.answers.set()
            assert [(await each).status for each in waiting] == [200, 200]
            assert (await with_token().ask(port)).status == 200

    asyncio.run(main())
    assert any("2 other callers wait for the API server's answer" in message for message in caplog.messages)


def test_callers_that_show_the_same_token_share_a_review_and_hang_up_without_ending_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[reviews.Reviews] = []

    class Reviews(reviews.Reviews):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            places.append(self)

    async def are_taken(count: int) -> None:
        while places[0]._taken != count:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(secure_server, "Reviews", Reviews)
    api_server = ApiServer(token_status=MASTER)

    async def main() -> None:
        api_server.answers = asyncio.Event()
        async with serving(tmp_path, api_server=api_server) as port:
            first = await with_token().ask_and_stay(port)
            await are_taken(1)
            second = await with_token().ask_and_stay(port)
            await are_taken(2)
            stays = asyncio.create_task(with_token().ask(port))
            await are_taken(3)
            second.close()
            await are_taken(2)
            first.close()
            await asyncio.sleep(0.6)
            api_server.answers.set()
            assert (await stays).status == 200
            assert api_server.reviews == 1
            await are_taken(0)

    asyncio.run(main())


def test_reviews_have_a_limit_of_their_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_server, "_REVIEWS_AT_ONCE", 3)  # the first is for the ConfigMap of authorities
    monkeypatch.setattr(secure_server, "_REVIEWS_PER_SECOND", 0.01)
    api_server = ApiServer(token_status=MASTER)

    async def main() -> None:
        async with serving(tmp_path, api_server=api_server) as port:
            assert [(await with_token(token).ask(port)).status for token in "ab"] == [200, 200]
            monkeypatch.setattr(reviews, "ANSWER_SECONDS", 0.2)
            assert (await with_token("c").ask(port)).status == 401
            assert api_server.reviews == 2

    asyncio.run(main())


def test_a_review_that_takes_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api_server = ApiServer()

    async def main() -> None:
        api_server.answers = asyncio.Event()
        async with serving(tmp_path, api_server=api_server) as port:
            monkeypatch.setattr(reviews, "ANSWER_SECONDS", 0.05)
            assert (await with_token().ask(port)).status == 401
        api_server.answers.set()

    asyncio.run(main())
    assert any("the API server took longer than 0.05 s to answer" in message for message in caplog.messages)

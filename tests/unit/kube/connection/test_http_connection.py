"""What the API server and its clients see of the connections between them."""

import asyncio
import gc
import gzip
import json
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import uvloop
from aiohttp.client_proto import ResponseHandler
from httptools import HttpResponseParser

from extender_service.kube.api_errors import ApiError, KubeError, SilentError, UnreachableError
from extender_service.kube.connection import client as client_module
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.connector import Connector
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import PODS
from tests.support.servers.http_server import Handler, Request, Response, http_server
from tests.support.servers.kubeconfig_files import write_kubeconfig
from tests.support.servers.proxy_server import proxy_server

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
Call = Callable[[KubeClient], Awaitable[Any]]


async def get(client: KubeClient) -> None:
    await client.get(PODS, "ns", "p")


async def bind(client: KubeClient) -> None:
    await client.bind("ns", "p", "u", "n")


async def patch(client: KubeClient) -> None:
    await client.patch(PODS, "ns", "p", {}, subresource="status")


async def answer_with_pod(request: Request, response: Response) -> None:
    await response.send_json(200, POD)


def run(handler: Handler, test: Call) -> None:
    async def main() -> None:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            await test(client)

    asyncio.run(main())


@pytest.mark.parametrize("write", [bind, patch])
def test_a_write_over_a_connection_that_the_server_closes_meanwhile_is_sent_once(write: Call) -> None:
    methods: list[str] = []

    async def handler(request: Request, response: Response) -> None:
        methods.append(request.method)
        if request.method == "GET":
            await response.send_json(200, POD)
        else:
            response.cut()

    async def test(client: KubeClient) -> None:
        await get(client)
        with pytest.raises(UnreachableError):
            await write(client)
        assert len(methods) == 2

    run(handler, test)


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    connections: set[object] = set()

    async def handler(request: Request, response: Response) -> None:
        connections.add(asyncio.current_task())
        await response.send_json(200, POD)
        response.cut()

    async def test(client: KubeClient) -> None:
        await get(client)
        await asyncio.sleep(0.05)
        await bind(client)
        assert len(connections) == 2

    run(handler, test)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("call", [get, bind])
def test_what_is_no_http_or_not_all_of_it_is_unreachable(call: Call, answer: bytes) -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(answer)
        response.cut()

    async def test(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match=r"^http://127\.0\.0\.1:\d+: .") as error:
            await call(client)
        assert not isinstance(error.value, SilentError)

    run(handler, test)


@pytest.mark.parametrize("chunk", [b"zz\r\n", b"5\r\n{"])
def test_a_watch_that_is_cut_is_unreachable(chunk: bytes) -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.start_chunks()
        await response.send_raw(chunk)
        response.cut()

    async def test(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match=r"^(the watch|http://127\.0\.0\.1:\d+): [^/]+$"):
            async with client.watch(PODS, "1") as events:
                [event async for event in events]

    run(handler, test)


@pytest.mark.parametrize("begins", [False, True])
def test_an_answer_that_does_not_come_is_silence(begins: bool) -> None:
    async def handler(request: Request, response: Response) -> None:
        if begins:
            await response.send_head(200, {"Content-Length": "100"})
        await asyncio.sleep(3600)

    async def test(client: KubeClient) -> None:
        with pytest.raises(SilentError, match=r"^http://127\.0\.0\.1:\d+: nothing came for 0\.05 s$"):
            await client.latest_version(PODS, silence_seconds=0.05)

    run(handler, test)


def test_a_handshake_that_does_not_end_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_CONNECT_SECONDS", 0.05)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}"
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, "insecure-skip-tls-verify": True})
            async with KubeClient(load_credentials(path)) as client:
                with pytest.raises(UnreachableError, match="timeout") as error:
                    await get(client)
        assert not isinstance(error.value, SilentError)

    asyncio.run(main())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_load_balancer_with_no_api_server_behind_it_is_described(
    tmp_path: Path, runner: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def main() -> None:
        async with await asyncio.start_server(read_hello_and_close, "127.0.0.1", 0) as server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, "insecure-skip-tls-verify": True})
            async with KubeClient(load_credentials(path)) as client:
                with pytest.raises(
                    UnreachableError, match=f"^{url}: the server closed the connection during the TLS handshake$"
                ):
                    await get(client)

    runner(main())


async def read_hello_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readexactly(5)  # of a TLS record, with its length
    await reader.readexactly(int.from_bytes(head[3:]))
    writer.close()


def test_a_proxy_that_refuses_is_told_with_its_reason(tmp_path: Path) -> None:
    async def refuse(request: Request, response: Response) -> None:
        assert request.method == "CONNECT"
        await response.send_json(407, {})

    async def main() -> None:
        async with http_server(refuse) as proxy:
            cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True, "proxy-url": proxy}
            async with KubeClient(load_credentials(write_kubeconfig(tmp_path / "config", cluster=cluster))) as client:
                with pytest.raises(UnreachableError, match=r"the proxy says no: 407 Status$"):
                    await get(client)

    asyncio.run(main())


def signs_of_life() -> set[tuple[int, ...]]:
    """For each open socket: whether it asks for signs of life, when, how often, and how long it waits for them."""
    found: set[tuple[int, ...]] = set()
    for file in Path("/proc/self/fd").iterdir():
        if not file.is_socket():
            continue
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        with suppress(OSError), socket.socket(fileno=os.dup(int(file.name))) as opened:
            tcp = [opened.getsockopt(socket.IPPROTO_TCP, option) for option in options]
            found.add((opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *tcp))
    return found


WITHIN_EIGHT_SECONDS = (1, 3, 2, 2, 5000)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("proxy", ["", "http", "https", "socks5"])
def test_a_peer_that_is_gone_without_a_word_is_noticed_within_eight_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str, runner: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(http_server(answer_with_pod, tls))
            cluster = {"server": url, "certificate-authority": str(tmp_path / "ca.crt")}
            if proxy:
                served = await stack.enter_async_context(proxy_server(proxy, tls if proxy == "https" else None))
                cluster["proxy-url"] = served.url
            credentials = load_credentials(write_kubeconfig(tmp_path / "config", cluster=cluster))
            client = await stack.enter_async_context(KubeClient(credentials))
            assert WITHIN_EIGHT_SECONDS not in signs_of_life()
            await get(client)
            assert WITHIN_EIGHT_SECONDS in signs_of_life()

    runner(main())


def test_a_header_that_cannot_be_sent_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with http_server(answer_with_pod) as url:
            credentials = load_credentials(write_kubeconfig(tmp_path / "config", cluster={"server": url}))
            async with KubeClient(replace(credentials, headers=(("X-Header", "a\nb"),))) as client:
                with pytest.raises(UnreachableError, match="in headers"):
                    await get(client)

    asyncio.run(main())


def test_follows_no_redirect_and_keeps_no_cookie() -> None:
    cookies: list[str | None] = []

    async def handler(request: Request, response: Response) -> None:
        cookies.append(request.header("cookie"))
        headers = {"Set-Cookie": "a=b; Path=/", "Location": "/elsewhere"}
        await response.send_json(302, {"reason": "Found"}, headers)

    async def test(client: KubeClient) -> None:
        for call in (get, bind):
            with pytest.raises(ApiError, match="302"):
                await call(client)

    run(handler, test)
    assert cookies == [None, None]


def test_what_is_sent_piece_by_piece_is_read_at_once_and_as_it_is() -> None:
    sent = asyncio.Event()

    async def handler(request: Request, response: Response) -> None:
        await response.send_head(200, {"Transfer-Encoding": "chunked", "Connection": "close"})
        for _ in range(3):
            sent.clear()
            await response.send_chunk(b'{"type": "ADDED", "object": {"metadata": {"name": "p"}}}\n')
            await sent.wait()
        await response.end_chunks()

    async def test(client: KubeClient) -> None:
        async with client.watch(PODS, "1") as events:
            async for event in events:
                assert event.object.metadata.name == "p"
                sent.set()

    run(handler, test)


def test_a_watch_that_is_left_or_cancelled_closes_its_connection() -> None:
    open_watches = 0

    async def handler(request: Request, response: Response) -> None:
        nonlocal open_watches
        await response.start_chunks()
        open_watches += 1
        try:
            while True:
                await response.send_chunk(b" \n")
                await asyncio.sleep(0.001)
        finally:
            open_watches -= 1

    async def watch(client: KubeClient, is_open: asyncio.Event) -> None:
        async with client.watch(PODS, "1"):
            is_open.set()
            await asyncio.sleep(3600)

    async def test(client: KubeClient) -> None:
        is_open = asyncio.Event()
        cancelled = asyncio.create_task(watch(client, is_open))
        await is_open.wait()
        async with client.watch(PODS, "1"):
            pass
        cancelled.cancel()
        while open_watches:
            await asyncio.sleep(0.001)

    run(handler, test)


def test_closing_ends_what_goes_on() -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.start_chunks()
        await asyncio.sleep(3600)

    async def test(client: KubeClient) -> None:
        async with client.watch(PODS, "1") as events:
            await client.__aexit__(None, None, None)
            with pytest.raises(UnreachableError):
                await anext(aiter(events))

    run(handler, test)


def test_what_fails_or_is_cancelled_leaves_nothing_for_the_garbage_collector() -> None:
    async def handler(request: Request, response: Response) -> None:
        if "watch" in request.query:
            await response.start_chunks()
            await asyncio.sleep(3600)
        elif request.method == "PATCH":
            response.cut()
        else:
            await response.send_json(409, {"reason": "Conflict"})

    async def watch(client: KubeClient, idle_seconds: float) -> None:
        async with client.watch(PODS, "1", idle_seconds=idle_seconds) as events:
            [event async for event in events]

    calls: list[Call] = [get, bind, patch, lambda client: watch(client, 0.02), lambda client: watch(client, 60.0)]
    kinds = (HttpConnection, HttpResponseParser, ResponseHandler, aiohttp.ClientRequest, aiohttp.TCPConnector)
    errors: list[str] = []

    async def test(client: KubeClient) -> None:
        before = {id(item) for item in gc.get_objects() if isinstance(item, kinds)}
        for call in calls:
            try:
                async with asyncio.timeout(0.1 if call is calls[-1] else 20.0):
                    await call(client)
            except (KubeError, TimeoutError) as error:
                errors.append(type(error).__name__)
        await asyncio.sleep(0)
        assert [item for item in gc.get_objects() if isinstance(item, kinds) and id(item) not in before] == []

    gc.collect()  # what other tests have left
    gc.disable()
    try:
        run(handler, test)
    finally:
        gc.enable()
    assert errors == ["ApiError", "ApiError", "UnreachableError", "SilentError", "TimeoutError"]


def cut_into_bytes(answer: bytes) -> list[bytes]:
    return [answer[at : at + 1] for at in range(len(answer))]


BODY = json.dumps(POD).encode()
SIZED = b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\n%b\r\n%x\r\n%b\r\n0\r\nX-Trailer: y\r\n\r\n" % (
    BODY[:5],
    len(BODY) - 5,
    BODY[5:],
)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("call", [get, bind])
@pytest.mark.parametrize("in_bytes", [False, True])
@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (OK + SIZED, 1),
        (OK + CHUNKED, 1),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + SIZED, 1),
        (OK + b"Connection: close\r\n" + SIZED, 2),
        (b"HTTP/1.0 200 OK\r\n" + SIZED, 2),
        (OK + SIZED + b"more than its length", 2),
        (OK + SIZED + b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}", 2),
        (OK + SIZED + b"HTTP/1.", 2),
    ],
)
def test_an_answer_is_read_whole_and_what_follows_it_is_no_answer_to_the_next_request(
    call: Call, in_bytes: bool, answer: bytes, connections: int
) -> None:
    used: list[object] = []

    async def handler(request: Request, response: Response) -> None:
        used.append(asyncio.current_task())
        for part in cut_into_bytes(answer) if in_bytes else [answer]:
            await response.send_raw(part)
            await asyncio.sleep(0)

    async def test(client: KubeClient) -> None:
        for _ in range(2):
            await call(client)
            await asyncio.sleep(0.05)

    run(handler, test)
    assert (len(used), len(set(used))) == (2, connections)


@pytest.mark.parametrize("call", [get, bind])
def test_an_answer_without_a_length_ends_with_its_connection(call: Call) -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(OK + b"\r\n" + BODY)
        response.end()

    run(handler, call)


@pytest.mark.parametrize(
    "flood",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"X: ",
        b"HTTP/1.1 200 ",
        OK + b"X: y\r\n",
        OK + CHUNKED[:-2],
        OK + CHUNKED[:-4],
        OK + b"Transfer-Encoding: chunked\r\n\r\n5;",
        b"\r\n",
    ],
    ids=["interim answers", "a header", "a reason", "headers", "trailers", "a trailer", "a chunk's extension", "lines"],
)
@pytest.mark.parametrize("call", [get, bind])
def test_a_head_without_end_is_an_error_before_it_fills_the_memory(call: Call, flood: bytes) -> None:
    sent = 0

    async def handler(request: Request, response: Response) -> None:
        nonlocal sent
        await response.send_raw(flood)
        more = flood if flood.startswith((b"HTTP/1.1 100", b"\r")) else b"x: y\r\n" if flood.endswith(b"\r\n") else b"x"
        while True:
            await response.send_raw(more * (4096 // len(more)))
            sent += 4096

    async def test(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match=r"the head of the answer is larger than 64 KiB"):
            await call(client)

    run(handler, test)
    assert sent < 20 << 20  # what the kernel's buffers hold


def test_an_answer_larger_than_it_may_be_ends_before_it_fills_the_memory() -> None:
    sent = 0

    async def handler(request: Request, response: Response) -> None:
        nonlocal sent
        await response.start_chunks()
        while True:
            await response.send_chunk(b"x" * 65_536)
            sent += 65_536

    async def main() -> None:
        async with http_server(handler) as url:
            http = HttpConnection(url, Connector(load_credentials(master=url)))
            await http.open(5.0)
            http.send(b"GET / HTTP/1.1\r\n\r\n", 60.0)
            assert await http.head() == 200
            with pytest.raises(UnreachableError, match=r"^http://127\.0\.0\.1:\d+: the answer is larger than 3 MiB$"):
                await http.body(3 << 20)
            assert not http.is_open
            await http.wait_closed()

    asyncio.run(main())
    assert sent < 40 << 20  # what the kernel's buffers hold


def test_an_answer_that_trickles_is_given_up_in_the_end() -> None:
    async def handler(request: Request, response: Response) -> None:
        for byte in cut_into_bytes(OK + b"X: y\r\n" * 20 + SIZED):
            await response.send_raw(byte)
            await asyncio.sleep(0.05)

    async def main() -> None:
        async with http_server(handler) as url:
            http = HttpConnection(url, Connector(load_credentials(master=url)))
            await http.open(5.0)
            http.send(b"GET / HTTP/1.1\r\n\r\n", 0.5, 1.0)
            with pytest.raises(UnreachableError, match=r": the answer was not whole after 1 s$") as error:
                await http.head()
            assert not isinstance(error.value, SilentError)

    asyncio.run(main())


@pytest.mark.parametrize("call", [get, bind])
def test_an_answer_that_is_compressed_unasked_is_an_error_that_says_so(call: Call) -> None:
    async def handler(request: Request, response: Response) -> None:
        body = gzip.compress(BODY)
        await response.send_head(200, {"Content-Encoding": "GZip", "Content-Length": str(len(body))})
        await response.send_raw(body)

    async def test(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match=r": the answer is encoded, which was not asked for: GZip$"):
            await call(client)

    run(handler, test)


def test_an_answer_that_says_it_is_not_compressed_is_read() -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_json(200, POD, {"Content-Encoding": "identity"})

    run(handler, get)


def test_what_was_not_read_of_an_answer_is_no_part_of_the_next() -> None:
    connections: set[object] = set()

    async def handler(request: Request, response: Response) -> None:
        connections.add(asyncio.current_task())
        await response.send_json(200, POD)

    async def test(client: KubeClient) -> None:
        async with client.watch(PODS, "1"):
            await asyncio.sleep(0.05)  # all of it has come
        assert (await client.get(PODS, "ns", "p")).metadata.name == "p"

    run(handler, test)
    assert len(connections) == 1


def test_a_trailer_is_no_header() -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(b"HTTP/1.1 429 Busy\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nRetry-After: 1\r\n\r\n")

    async def test(client: KubeClient) -> None:
        with pytest.raises(ApiError) as error:
            await get(client)
        assert not error.value.asks_to_retry

    run(handler, test)


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_connection_whose_server_answers_before_it_has_read_the_request_is_not_used_again(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await asyncio.sleep(0.5)  # and reads no more
        writer.transport.abort()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, KubeClient(load_credentials(master=url)) as client:
            for _ in range(2):
                with pytest.raises(ApiError, match="413"):
                    await client.exchange("POST", "/large", {"large": "x" * (16 << 20)})
            await asyncio.sleep(0.6)

    runner(main())
    assert connections == 2


@pytest.mark.parametrize("answer", [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"])
@pytest.mark.parametrize("call", [get, bind])
def test_another_protocol_is_no_answer(call: Call, answer: bytes) -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(answer)

    async def test(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match="no HTTP"):
            await call(client)

    run(handler, test)


def test_what_comes_unasked_closes_the_connection() -> None:
    connections: list[object] = []

    async def handler(request: Request, response: Response) -> None:
        connections.append(asyncio.current_task())
        await response.send_json(200, POD)
        await asyncio.sleep(0.02)
        await response.send_raw(OK + b"Content-Length: 2\r\n\r\n{}")

    async def test(client: KubeClient) -> None:
        await get(client)
        await asyncio.sleep(0.1)
        await get(client)

    run(handler, test)
    assert len(set(connections)) == 2


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE", "GET"])
def test_only_what_may_be_done_twice_is_sent_again_over_a_connection_that_was_closed_meanwhile(method: str) -> None:
    methods: list[str] = []

    async def handler(request: Request, response: Response) -> None:
        methods.append(request.method)
        if len(methods) == 2:
            response.cut()
        else:
            await response.send_json(200, POD)

    async def test(client: KubeClient) -> None:
        await client.exchange("GET", "/first")
        if method in ("PUT", "DELETE", "GET"):
            await client.exchange(method, "/second", {})
            assert methods == ["GET", method, method]
        else:
            with pytest.raises(UnreachableError):
                await client.exchange(method, "/second", {})
            assert methods == ["GET", method]

    run(handler, test)


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 2"])
def test_nothing_is_sent_again_over_a_new_connection_or_after_a_part_of_the_answer(cut: bytes) -> None:
    methods: list[str] = []

    async def handler(request: Request, response: Response) -> None:
        methods.append(request.method)
        if cut and len(methods) == 1:
            await response.send_json(200, POD)
            return
        await response.send_raw(cut)
        response.cut()

    async def test(client: KubeClient) -> None:
        if cut:
            await get(client)
        with pytest.raises(UnreachableError):
            await get(client)

    run(handler, test)
    assert len(methods) == (2 if cut else 1)


def test_a_write_is_not_sent_again_if_it_must_not_be_by_then() -> None:
    methods: list[str] = []
    reasons = iter([None, None, "the lease has ended"])

    async def handler(request: Request, response: Response) -> None:
        methods.append(request.method)
        if request.method == "GET":
            await response.send_json(200, POD)
        else:
            response.cut()

    async def main() -> None:
        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url), refuse_writes=lambda: next(reasons)) as client,
        ):
            await get(client)
            with pytest.raises(KubeError, match=r"^not sent: the lease has ended$"):
                await client.delete(PODS, "ns", "p", "u")

    asyncio.run(main())
    assert methods == ["GET", "DELETE"]


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_request_that_is_cancelled_closes_its_connection_and_its_answer_is_for_no_other(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    tasks: list[asyncio.Task[None] | None] = []
    go_on = asyncio.Event()

    async def handler(request: Request, response: Response) -> None:
        tasks.append(asyncio.current_task())
        if request.method == "POST":
            await go_on.wait()
        await response.send_json(200, {"metadata": {"name": request.method}})

    async def main() -> None:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            await get(client)
            call = asyncio.ensure_future(bind(client))
            while len(tasks) < 2:
                await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.wait([call])
            go_on.set()
            while not all(task is None or task.done() for task in tasks):  # the connection has ended
                await asyncio.sleep(0.001)
            assert (await client.get(PODS, "ns", "p")).metadata.name == "GET"

    runner(main())
    assert len(tasks) == 3


def test_silence_counts_from_the_last_byte_and_for_each_request_on_its_own() -> None:
    async def handler(request: Request, response: Response) -> None:
        if request.path == "/api/v1/pods":
            await asyncio.sleep(3600)
        answer = OK + SIZED
        for at in range(0, len(answer), 25):  # for longer than any silence may be
            await response.send_raw(answer[at : at + 25])
            await asyncio.sleep(0.4 if request.path == "/slow" else 0.0)

    async def main() -> None:
        async with http_server(handler) as url:
            connector = Connector(load_credentials(master=url))
            http = HttpConnection(url, connector)
            await http.open(5.0)
            for path, silence_seconds in ((b"/", 60.0), (b"/slow", 1.5)):
                http.send(b"GET %b HTTP/1.1\r\n\r\n" % path, silence_seconds)
                assert await http.head() == 200
                assert await http.body(len(BODY)) == BODY
            http.send(b"GET /api/v1/pods HTTP/1.1\r\n\r\n", 0.1)
            with pytest.raises(SilentError, match=r"nothing came for 0\.1 s$"):
                await http.head()
            await http.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_watch_that_is_not_read_does_not_fill_the_memory_and_is_not_silent(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    line = b'{"type": "ADDED", "object": {"metadata": {"name": "%b"}}}\n' % (b"x" * 60_000)
    sent = 0

    async def handler(request: Request, response: Response) -> None:
        nonlocal sent
        await response.start_chunks()
        for _ in range(1000):
            await response.send_chunk(line)
            sent += 1
        await response.end_chunks()

    async def main() -> None:
        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url)) as client,
            client.watch(PODS, "1", idle_seconds=1.5) as events,
        ):
            await asyncio.sleep(2.0)
            assert sent < 500
            assert len([event async for event in events]) == 1000

    runner(main())

"""What the API server and its clients see of the connections between them."""

import asyncio
import gc
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
import httpx
import pytest
import trustme
import uvloop

from extender_service.kube.api_errors import ApiError, KubeError, SilentError, UnreachableError
from extender_service.kube.api_resources import PODS
from extender_service.kube.connection import client as client_module
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from tests.support.http_server import Handler, Request, Response, http_server
from tests.support.kubeconfig_files import write_kubeconfig
from tests.support.proxy_server import proxy_server

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
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            url = f"https://127.0.0.1:{nobody.getsockname()[1]}"
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url, "insecure-skip-tls-verify": True})
            async with KubeClient(load_credentials(path)) as client:
                with pytest.raises(UnreachableError, match="timeout") as error:
                    await get(client)
        assert not isinstance(error.value, SilentError)

    asyncio.run(main())


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
    kinds = (httpx.Response, httpx.Request, aiohttp.ClientResponse, aiohttp.ClientRequest, aiohttp.StreamReader)
    errors: list[str] = []

    async def test(client: KubeClient) -> None:
        before = {id(item) for item in gc.get_objects() if isinstance(item, kinds)}
        for call in calls:
            try:
                async with asyncio.timeout(0.1):
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

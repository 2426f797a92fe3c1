"""Sockets: which object owns them, and which address of a host they lead to."""

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.connector import Connector
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import PODS
from tests.support.servers.http_server import Request, Response, http_server
from tests.support.servers.kubeconfig_files import write_kubeconfig

_RESET = struct.pack("ii", 1, 0)
_TURN_SECONDS = 0.002


@contextmanager
def resetting_server() -> Iterator[int]:
    """A server that resets each connection some milliseconds after accepting it, from a thread; the value is its port.

    So does the kernel of an API server that is killed.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:  # the listener was shut down
                    return
                time.sleep(random.uniform(0, 4 * _TURN_SECONDS))
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


async def slow_down() -> None:
    """Have each turn of the event loop take some milliseconds, as other work would."""
    while True:
        time.sleep(_TURN_SECONDS)  # noqa: ASYNC251 - so that the loop is slow
        await asyncio.sleep(0)


def test_no_object_keeps_the_number_of_a_connection_that_is_reset_before_tls_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An object that still has the number of a closed file would close it once more, when another connection has it.
    made: list[socket.socket] = []
    initialize = socket.socket.__init__

    def record(made_socket: socket.socket, *arguments: Any, **options: Any) -> None:
        initialize(made_socket, *arguments, **options)
        made.append(made_socket)

    async def main() -> None:
        slow = asyncio.create_task(slow_down())
        async with KubeClient(load_credentials(kubeconfig)) as client:
            for _ in range(20):
                with pytest.raises(UnreachableError):
                    await client.get(PODS, "ns", "p")
        slow.cancel()

    monkeypatch.setattr(socket.socket, "__init__", record)
    with resetting_server() as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        kubeconfig = write_kubeconfig(tmp_path / "config", cluster=cluster)
        uvloop.run(main())
    assert [kept for kept in made if kept.fileno() != -1] == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_is_open_just_when_its_request_is_cancelled_is_closed(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    tidying = asyncio.Event()

    async def tidy_for_long(_: object) -> None:
        tidying.set()
        await asyncio.sleep(3600)

    async def main() -> None:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            ended.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            opening = asyncio.create_task(Connector(load_credentials(master=url)).open())
            await tidying.wait()
            opening.cancel()
            await asyncio.wait_for(ended.wait(), 20)

    monkeypatch.setattr(aiohttp.TCPConnector, "close", tidy_for_long)
    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_of_a_host_with_several_addresses_the_one_that_answers_is_used(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def answer_with_pod(request: Request, response: Response) -> None:
        await response.send_json(200, {"metadata": {"name": "p"}})

    async def resolve(loop: object, host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        assert host == "api.example"
        refusing = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        return [refusing, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def main() -> None:
        async with http_server(answer_with_pod) as url:
            monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", resolve)
            async with KubeClient(load_credentials(master=url.replace("127.0.0.1", "api.example"))) as client:
                await client.get(PODS, "ns", "p")

    run(main())

"""One address for several services, as a Kubernetes Service is for its pods.

A new connection goes to the next of those that are ready, and stays there: kube-proxy, too, moves no connection once it
is made, and does not try another pod where the first cannot be reached. Who is ready is asked again and again, as the
kubelet does on behalf of the Service's endpoints, but sooner.
"""

import asyncio
import itertools
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_PROBE_SECONDS = 0.1
_PROBE_TIMEOUT_SECONDS = 1.0


class Balancer:
    """A context manager; `url` is the one address, `targets` are the services behind it."""

    def __init__(self, *targets: str) -> None:
        self._ready: dict[str, bool] = dict.fromkeys(targets, False)
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._background: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def ready(self) -> set[str]:
        """Who is ready now."""
        return {target for target, is_ready in self._ready.items() if is_ready}

    def add(self, target: str) -> None:
        """Put one more service behind the address: once it is ready, it gets connections."""
        self._loop.call_soon_threadsafe(self._spawn_probe, target)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        for target in list(self._ready):
            self._spawn_probe(target)

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _spawn_probe(self, target: str) -> None:
        task = self._loop.create_task(self._probe(target))
        self._background.add(task)

    async def _probe(self, target: str) -> None:
        while True:
            self._ready[target] = await _is_ready(target)
            await asyncio.sleep(_PROBE_SECONDS)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets = sorted(self.ready)
        with suppress(OSError, ZeroDivisionError, asyncio.CancelledError):
            there_reader, there_writer = await _connect(targets[next(self._turns) % len(targets)])
            try:
                await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
            finally:
                there_writer.close()
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, and that nothing more does, also where a process was killed and its connections are reset."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _is_ready(target: str) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
            reader, writer = await _connect(target)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return (await reader.read()).startswith(b"HTTP/1.1 200 ")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def _connect(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(target)
    return await asyncio.open_connection(where.hostname, where.port)

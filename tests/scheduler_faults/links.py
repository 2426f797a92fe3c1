"""TCP links from replicas to the API server that can be cut, as in a network: bytes vanish, and no side is told."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

_CHUNK_BYTES = 1 << 16


class Link:
    """Forwards connections from a port of its own on 127.0.0.1 to the API server's. Made by `Links.open`.

    While it `is_cut`, both sides see silence: what they send is read and dropped. Connections of that time stay silent
    for ever, since TLS cannot go on without the bytes that are lost.
    """

    def __init__(self, port: int) -> None:
        self.is_cut = False
        self.url = ""
        self._to_port = port
        self._cuts = 0
        self._serving: set[asyncio.Task[Any]] = set()

    def cut(self) -> None:
        """Let all bytes vanish from now on, in both directions."""
        self._cuts += 1
        self.is_cut = True

    def mend(self) -> None:
        """Let new connections through again."""
        self.is_cut = False

    async def listen(self) -> None:
        """Begin to accept connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End all connections."""
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        began_at = -1 if self.is_cut else self._cuts
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", self._to_port)
            try:
                with suppress(ConnectionError):
                    async with asyncio.TaskGroup() as pumps:
                        pumps.create_task(self._pump(client, to_server, began_at))
                        pumps.create_task(self._pump(server, to_client, began_at))
            except* (ConnectionError, _EndedError):
                pass
            finally:
                to_server.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the API server is down, or the links are closed
        finally:
            to_client.transport.abort()
            self._serving.discard(task)

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, began_at: int) -> None:
        while data := await source.read(_CHUNK_BYTES):
            if began_at == self._cuts:
                to.write(data)
                await to.drain()
        if began_at != self._cuts:
            await asyncio.Event().wait()  # the other side does not see the end either
        raise _EndedError


class _EndedError(Exception):
    """One side has closed its connection."""


class Links:
    """Opens links; a context manager, which closes them. It has a thread of its own."""

    def __init__(self, port: int) -> None:
        """`port` is the API server's, on 127.0.0.1."""
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._links: list[Link] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for link in self._links:
            self._run(link.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self) -> Link:
        """Open one more link."""
        link = Link(self._port)
        self._run(link.listen()).result()
        self._links.append(link)
        return link

    def _run(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

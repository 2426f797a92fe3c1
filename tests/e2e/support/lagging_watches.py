"""An API server whose watches are late: each event reaches the client so many seconds after it happened.

    lag = LaggingWatches(0.1)
    with FaultyProxy(control_plane, lag) as proxy:
        Service(directory, proxy.kubeconfig)

As with a watch cache that is behind, a watch that is opened again shows an event no sooner, and ends on time. Errors,
lists, reads and writes are as current as ever.
"""

import asyncio
import time

from tests.e2e.support.faulty_proxy import Exchange, HangUpError, lines_of

# Events that the proxy still knows when it has seen them first; tests make far fewer within any lag.
_MOST_EVENTS = 100_000
# The last event of a watch that failed, such as one of a version that is too old.
_ERROR = b'{"type":"ERROR"'


class LaggingWatches:
    """A handler of a FaultyProxy; `seconds` may change at any time, and holds for the events after that."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._due: dict[bytes, float] = {}

    async def __call__(self, exchange: Exchange) -> None:
        """Pass a request on, the events of a watch late."""
        if not exchange.is_watch:
            await exchange.pass_on()
            return
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with exchange.ask() as response:
            await exchange.start(response.status_code, response.headers.raw)
            if response.is_error:
                await exchange.send(await response.aread())
                await exchange.end()
                return
            sending = asyncio.create_task(_send(exchange, late))
            try:
                async for line in lines_of(response):
                    if line.startswith(_ERROR):
                        sending.cancel()
                        await exchange.send(line)
                        break
                    late.put_nowait((self._due_at(line), line))
                    if sending.done():
                        raise HangUpError
                # What is not due when the watch ends comes with the next watch.
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        await exchange.end()

    def _due_at(self, line: bytes) -> float:
        if line not in self._due:
            if len(self._due) >= _MOST_EVENTS:
                self._due.clear()
            self._due[line] = time.monotonic() + self.seconds
        return self._due[line]


async def _send(exchange: Exchange, late: asyncio.Queue[tuple[float, bytes]]) -> None:
    while True:
        due_at, line = await late.get()
        await asyncio.sleep(max(0.0, due_at - time.monotonic()))
        await exchange.send(line)

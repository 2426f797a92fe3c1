"""A small world to try one fault in: API servers, and a client that asks them over the network."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.worlds.api_server.messages import Request, Response
from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import Fault, carry_out
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.served_model import PORT, ApiServers
from tests.worlds.simulation.world import World

_ADDRESS = "10.0.0.1"


@dataclass(frozen=True)
class Heard:
    """What a client heard: when, in the world's time, and the bytes, or why it heard no more."""

    at: float
    text: str

    @property
    def status(self) -> int:
        """The status of an answer; 0 for no answer."""
        return int(self.text.split()[1]) if self.text.startswith("HTTP/1.1 ") else 0


class Trial:
    """A world with API servers and one program, which does what the test says. Faults hit both."""

    def __init__(self, *faults: Fault, api_servers: int = 1, seed: int = 1) -> None:
        self.world = World(seed)
        self.servers = ApiServers(self.world, "api-server", _ADDRESS, MachineClocks(self.world.timeline), api_servers)
        self._main: Callable[[], Awaitable[object]] = self._wait
        self.program = Process(self.world, "replica-0", lambda _: self._run())
        self.surroundings = Surroundings(self.world, {"replica-0": self.program}, self.servers)
        carry_out(faults, ALL_KINDS, self.surroundings)

    def run(self, main: Callable[[], Awaitable[object]], seconds: float = 100.0) -> None:
        """Run a program for some seconds. Raises what it fails with."""
        self._main = main
        self.program.start()
        self.world.run(seconds)
        assert not str(self.program.outcome).startswith("fails"), self.program.outcome

    def create(self, path: str, **thing: Any) -> None:
        """Create an object without the network."""
        body = msgspec.json.encode(thing)
        answer = self.servers.ask(Request("POST", path, {}, {"content-type": "application/json"}, body))
        assert isinstance(answer, Response), answer
        assert answer.status == 201, answer

    def names(self, path: str) -> list[str]:
        """Return the names of the objects that are listed at a path, without the network."""
        answer = self.servers.ask(Request("GET", path))
        assert isinstance(answer, Response)
        return [item["metadata"]["name"] for item in answer.json()["items"]]

    async def ask(self, method: str, path: str, body: Any = None, seconds: float = 60.0) -> Heard:
        """Send a request over a new connection; return what comes until the end, or for some seconds."""
        content = b"" if body is None else msgspec.json.encode(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        head = f"{method} {path} HTTP/1.1\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
        heard = b""
        end = ""
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(_ADDRESS, PORT)
                try:
                    writer.write(head.encode() + content)
                    while not _is_whole(heard) and (piece := await reader.read(1 << 16)):
                        heard += piece
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            end = type(error).__name__
        return Heard(self.world.timeline.now, heard.decode() + end)

    async def _run(self) -> None:
        await self._main()

    async def _wait(self) -> None:
        await asyncio.sleep(1e9)


def _is_whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    _, _, length = head.partition(b"content-length: ")
    return bool(length) and bool(body) and len(body) >= int(length.split()[0])

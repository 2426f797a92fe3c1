"""Connections between the processes of a world: streams of bytes in memory, beneath HTTP.

They do what TCP does: bytes arrive in order or not at all, after a while, and in other pieces than they were sent in.
What the other side has not read holds up what is sent.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from tests.worlds.simulation.memory_sockets import ListeningSocket
from tests.worlds.simulation.routes import Route
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.timeline import Timeline
from tests.worlds.simulation.transport import MemoryTransport, system_error

# One way takes so long at least, and up to so much more. Of so many pieces, one arrives in two.
_LEAST_SECONDS: Final = 50e-6
_MORE_SECONDS: Final = 1e-3
_WHOLE_PIECES: Final = 20

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.Protocol]
_Opened = tuple[MemoryTransport, asyncio.Protocol]


@dataclass(frozen=True)
class _Listener:
    """A process that listens at an address, and how it takes a connection."""

    loop: SimulatedLoop
    take: Callable[[MemoryTransport], None]


class Network:
    """Who listens where, and the routes between hosts. A process has the name of its host."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self._random = random
        self._listeners: dict[Address, list[_Listener]] = {}
        self._sockets: dict[Address, list[ListeningSocket]] = {}
        self._numbers = 0
        self._transports: list[MemoryTransport] = []
        self._routes: dict[tuple[str, str], Route] = {}

    def listen(self, loop: SimulatedLoop, address: str, port: int, factory: ProtocolFactory) -> None:
        """Let a process accept connections at an address. Several processes there share them by chance."""

        def take(theirs: MemoryTransport) -> None:
            theirs.call(lambda: theirs.begin(factory()))

        self._listeners.setdefault((address, port), []).append(_Listener(loop, take))

    def listening_socket(self, loop: SimulatedLoop, address: Address) -> ListeningSocket:
        """Return a socket on which a process accepts connections itself. Raises OSError if the address is taken."""
        if self._listeners.get(address):
            raise system_error(errno.EADDRINUSE)
        self._sockets[address] = []
        opened = ListeningSocket(self, address)

        def take(theirs: MemoryTransport) -> None:
            opened.waiting.append(theirs)
            loop.call_at_world(self.timeline.now, loop.read_ready, [each.fileno() for each in self._sockets[address]])

        self._listeners[address] = [_Listener(loop, take)]
        return opened

    def open_listener(self, address: Address, listener: ListeningSocket, first_number: int) -> int:
        """Count a socket that listens at an address; return a number for it."""
        self._sockets[address].append(listener)
        self._numbers += 1
        return first_number + self._numbers

    def close_listener(self, address: Address, listener: ListeningSocket) -> None:
        """Count it no more. Without any, connections are refused, and those that wait are reset."""
        listeners = self._sockets[address]
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                self._listeners.pop(address, None)
                while listener.waiting:
                    listener.waiting.popleft().reset()

    async def connect(self, loop: SimulatedLoop, factory: ProtocolFactory, address: str, port: int) -> _Opened:
        """Connect a process to the one that listens. Raises ConnectionRefusedError."""
        listeners = self._listeners.get((address, port), [])
        if not listeners:
            await asyncio.sleep(self.latency_seconds())
            raise system_error(errno.ECONNREFUSED)
        listener = listeners[0] if len(listeners) == 1 else self._random.choice(listeners)
        opened: asyncio.Future[_Opened] = loop.create_future()
        ours = MemoryTransport(self, loop, (loop.name, 0), (address, port), is_client=True)
        theirs = MemoryTransport(self, listener.loop, (address, port), (loop.name, 0))
        ours.peer, theirs.peer = theirs, ours
        self._transports = [each for each in self._transports if not each.is_gone]
        self._transports += [ours, theirs]

        def begin() -> None:
            if opened.done():
                return
            if ours.is_gone:
                opened.set_exception(system_error(errno.ECONNRESET))
                return
            protocol = factory()
            ours.begin(protocol)
            opened.set_result((ours, protocol))

        def refuse() -> None:
            if not opened.done():
                opened.set_exception(system_error(errno.ECONNREFUSED))

        def accept() -> None:
            if ours.is_gone:
                theirs.is_gone = True
            elif listener not in self._listeners.get((address, port), []):
                theirs.to_peer(partial(ours.call, refuse))
            else:
                listener.take(theirs)
                theirs.to_peer(partial(ours.call, begin))

        ours.to_peer(accept)
        try:
            return await opened
        except BaseException:
            ours.abort()
            raise

    def route(self, sender: str, receiver: str) -> Route:
        """Return the way from one host to another."""
        route = self._routes.get((sender, receiver))
        if route is None:
            route = self._routes[sender, receiver] = Route()
        return route

    def connections(self, client: str, server: str) -> list[MemoryTransport]:
        """Return the clients' ends of the connections between two hosts, the oldest first."""
        return [
            each
            for each in self._transports
            if each.is_client and not each.is_gone and (each.loop.name, each.peer.loop.name) == (client, server)
        ]

    def send(self, sender: str, receiver: str, action: Callable[[], None], *, not_before: float = 0.0) -> float:
        """Let something arrive at another host, and return when that will be, unless nothing arrives there."""
        route = self.route(sender, receiver)
        at = max(not_before, self.timeline.now + self.latency_seconds() + route.delay_seconds())
        self.timeline.call_at(at, partial(route.arrive, action))
        return at

    def cut(self, one: str, other: str) -> None:
        """Let nothing arrive between two hosts from now on; nor does either learn of it."""
        self.route(one, other).cut()
        self.route(other, one).cut()

    def mend(self, one: str, other: str) -> None:
        """Let everything arrive again, also what was sent meanwhile."""
        self.route(one, other).mend()
        self.route(other, one).mend()

    def hang_up(self, loop: SimulatedLoop) -> None:
        """Close all sockets of a process that has ended, as its system does."""
        self._listeners = {
            address: [each for each in listeners if each.loop is not loop]
            for address, listeners in self._listeners.items()
        }
        for transport in self._transports:
            if transport.loop is loop:
                transport.hang_up()

    def latency_seconds(self) -> float:
        """Return for how long something is on its way."""
        return _LEAST_SECONDS + _MORE_SECONDS * self._random.random() ** 3

    def pieces(self, data: bytes) -> tuple[bytes, ...]:
        """Return what is sent in the pieces in which it arrives."""
        if len(data) < 2 or self._random.randrange(_WHOLE_PIECES):
            return (data,)
        cut = self._random.randrange(1, len(data))
        return data[:cut], data[cut:]

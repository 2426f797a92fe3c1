"""Connections between the processes of a world: streams of bytes in memory, beneath HTTP.

They do what TCP does: bytes arrive in order or not at all, after a while, and in other pieces than they were sent in.
What the other side has not read holds up what is sent.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from tests.worlds.simulation.memory_sockets import AcceptedSocket, Arrivals, ListeningSocket
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.timeline import Timeline

# So much may be on its way or unread at the other end: the buffers of both systems.
_WINDOW_BYTES: Final = 256 << 10
# Above this much that is not even sent, the writer is told to pause, and below the second to go on.
_HIGH_BYTES: Final = 64 << 10
_LOW_BYTES: Final = 16 << 10
# One way takes so long at least, and up to so much more. Of so many pieces, one arrives in two.
_LEAST_SECONDS: Final = 50e-6
_MORE_SECONDS: Final = 1e-3
_WHOLE_PIECES: Final = 20

ProtocolFactory = Callable[[], asyncio.Protocol]
_Opened = tuple["MemoryTransport", asyncio.Protocol]


class Network:
    """Who listens where, and between which hosts nothing arrives. A process has the name of its host."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self._random = random
        self._listeners: dict[tuple[str, int], tuple[SimulatedLoop, Callable[[MemoryTransport], None]]] = {}
        self._sockets: dict[tuple[str, int], list[ListeningSocket]] = {}
        self._numbers = 0
        self._transports: list[MemoryTransport] = []
        self._cut: dict[frozenset[str], list[Callable[[], None]]] = {}

    def listen(self, loop: SimulatedLoop, address: str, port: int, factory: ProtocolFactory) -> None:
        """Let a process accept connections at an address of its host."""
        self._listeners[address, port] = loop, lambda theirs: theirs.call(lambda: theirs.begin(factory()))

    def listening_socket(self, loop: SimulatedLoop, address: tuple[str, int]) -> ListeningSocket:
        """Return a socket on which a process accepts connections itself. Raises OSError if the address is taken."""
        held = self._listeners.get(address)
        if held is not None and not held[0].is_closed():
            raise _error(errno.EADDRINUSE)
        self._sockets[address] = []
        opened = ListeningSocket(self, address)

        def accept(theirs: MemoryTransport) -> None:
            opened.waiting.append(theirs)
            loop.call_at_world(self.timeline.now, loop.read_ready, [each.fileno() for each in self._sockets[address]])

        self._listeners[address] = loop, accept
        return opened

    def open_listener(self, address: tuple[str, int], listener: ListeningSocket, first_number: int) -> int:
        """Count a socket that listens at an address; return a number for it."""
        self._sockets[address].append(listener)
        self._numbers += 1
        return first_number + self._numbers

    def close_listener(self, address: tuple[str, int], listener: ListeningSocket) -> None:
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
        server, take = self._listeners.get((address, port), (None, None))
        if server is None or take is None or server.is_closed():
            await asyncio.sleep(self.latency_seconds())
            raise _error(errno.ECONNREFUSED)
        opened: asyncio.Future[_Opened] = loop.create_future()
        ours = MemoryTransport(self, loop, (loop.name, 0), (address, port))
        theirs = MemoryTransport(self, server, (address, port), (loop.name, 0))
        ours.peer, theirs.peer = theirs, ours
        self._transports = [each for each in self._transports if not each.is_gone]
        self._transports += [ours, theirs]

        def begin() -> None:
            if opened.done():
                return
            if ours.is_gone:
                opened.set_exception(_error(errno.ECONNRESET))
                return
            protocol = factory()
            ours.begin(protocol)
            opened.set_result((ours, protocol))

        def refuse() -> None:
            if not opened.done():
                opened.set_exception(_error(errno.ECONNREFUSED))

        def accept() -> None:
            if ours.is_gone:
                theirs.is_gone = True
            elif server.is_closed() or (address, port) not in self._listeners:
                theirs.to_peer(partial(ours.call, refuse))
            else:
                take(theirs)
                theirs.to_peer(partial(ours.call, begin))

        ours.to_peer(accept)
        try:
            return await opened
        except BaseException:
            ours.abort()
            raise

    def send(self, sender: str, receiver: str, action: Callable[[], None], *, not_before: float = 0.0) -> float:
        """Let something arrive at another host, and return when that will be, unless nothing arrives there."""
        at = max(not_before, self.timeline.now + self.latency_seconds())
        self.timeline.call_at(at, partial(self._arrive, frozenset((sender, receiver)), action))
        return at

    def _arrive(self, hosts: frozenset[str], action: Callable[[], None]) -> None:
        held = self._cut.get(hosts)
        if held is None:
            action()
        else:
            held.append(action)

    def cut(self, one: str, other: str) -> None:
        """Let nothing arrive between two hosts from now on; nor does either learn of it."""
        self._cut.setdefault(frozenset((one, other)), [])

    def mend(self, one: str, other: str) -> None:
        """Let everything arrive again, also what was sent meanwhile."""
        for action in self._cut.pop(frozenset((one, other)), ()):
            action()

    def hang_up(self, loop: SimulatedLoop) -> None:
        """Close all sockets of a process that has ended, as its system does."""
        self._listeners = {address: held for address, held in self._listeners.items() if held[0] is not loop}
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


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class MemoryTransport(asyncio.Transport):
    """One end of a connection. The network makes both."""

    peer: "MemoryTransport"

    def __init__(self, network: Network, loop: SimulatedLoop, own: tuple[str, int], other: tuple[str, int]) -> None:
        self._accepted: AcceptedSocket | None = None
        self._names = {"sockname": own, "peername": other}
        self.loop = loop
        self.is_gone = False  # the system has closed it
        self._network = network
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False
        self._has_ended = False  # nothing more can be written
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._on_the_way_bytes = 0
        self._last_arrival = 0.0
        self._is_writer_paused = False
        self._is_reader_paused = False
        self._unread: deque[bytes | None] = deque()  # None is the end
        self.arrivals = Arrivals()

    def call(self, action: Callable[..., object], *args: Any) -> None:
        """Have this end's process do something, when it gets to it."""
        self.loop.call_at_world(self._network.timeline.now, action, *args)

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Use the connection, which is open now."""
        if not self.is_gone:
            self._protocol = protocol
            protocol.connection_made(self)
            self._read()

    def begin_accepted(self, protocol: asyncio.BaseProtocol, accepted: AcceptedSocket) -> None:
        """The same for a connection that its process has accepted by itself."""
        self._accepted = accepted
        self.begin(protocol)

    # What its process calls:

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return an address; the socket of a connection that its process has accepted itself."""
        return self._accepted if name == "socket" else self._names.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._is_closing or self._has_ended or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self._send()
        if self._unsent_bytes > _HIGH_BYTES and not self._is_writer_paused and self._protocol is not None:
            self._is_writer_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        """End what is sent; the other side may go on."""
        if not self._has_ended:
            self._has_ended = True
            self._send()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._send()

    def abort(self) -> None:
        """Close the connection at once, without what is not sent yet."""
        if self.is_gone:
            return
        self.reset()
        self.loop.call_soon(self._lose, None)

    def is_closing(self) -> bool:
        return self._is_closing or self.is_gone

    def pause_reading(self) -> None:
        """Read nothing, until told otherwise."""
        self._is_reader_paused = True

    def resume_reading(self) -> None:
        """Read again."""
        if self._is_reader_paused:
            self._is_reader_paused = False
            self.loop.call_soon(self._read)

    def is_reading(self) -> bool:
        return not self._is_reader_paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    # What the system does:

    def hang_up(self) -> None:
        """Close this end, whose process has ended: the other side sees the end, or a reset if something was unread."""
        if self._unread:
            self.reset()
        elif not self.is_gone:
            self._unsent.clear()
            self._unsent_bytes = 0
            self.is_gone = self._is_closing = True
            self.to_peer(partial(self.peer.arrive, None))

    def reset(self) -> None:
        """End the connection on this side without a word to its process, and with a reset to the other."""
        if not self.is_gone:
            self.is_gone = self._is_closing = True
            self._unsent.clear()
            self._unsent_bytes = 0
            self.to_peer(lambda: self.peer.fail(errno.ECONNRESET))

    def fail(self, number: int) -> None:
        """End the connection on this side with one of the system's errors."""
        if not self.is_gone:
            self.is_gone = self._is_closing = True
            self.arrivals.end()
            self.call(self._lose, _error(number))

    def _send(self) -> None:
        while self._unsent and self._on_the_way_bytes < _WINDOW_BYTES:
            data = self._unsent.popleft()
            self._unsent_bytes -= len(data)
            self._on_the_way_bytes += len(data)
            for piece in self._network.pieces(data):
                self.to_peer(partial(self.peer.arrive, piece))
        if self._is_writer_paused and self._unsent_bytes < _LOW_BYTES and self._protocol is not None:
            self._is_writer_paused = False
            self.loop.call_soon(self._protocol.resume_writing)
        if not self._unsent and (self._is_closing or self._has_ended) and not self.is_gone:
            self.to_peer(partial(self.peer.arrive, None))
            if self._is_closing:
                self.is_gone = True
                self.loop.call_soon(self._lose, None)

    def to_peer(self, action: Callable[[], None]) -> None:
        """Let something arrive at the other end, after all that was sent before."""
        self._last_arrival = self._network.send(
            self.loop.name, self.peer.loop.name, action, not_before=self._last_arrival
        )

    def arrive(self, piece: bytes | None) -> None:
        """Take a piece from the network, or the end."""
        if self.is_gone:
            if piece is not None:  # the process has closed its end
                self.to_peer(lambda: self.peer.fail(errno.ECONNRESET))
            return
        self._unread.append(piece)
        if piece is None:
            self.arrivals.end()
        else:
            self.arrivals.add()
        self.call(self._read)

    def _read(self) -> None:
        """Give the process what has arrived."""
        while self._unread and self._protocol is not None and not self._is_reader_paused and not self.is_gone:
            assert isinstance(self._protocol, asyncio.Protocol)
            piece = self._unread.popleft()
            if piece is not None:
                self.arrivals.take()
                self.to_peer(partial(self.peer.acknowledge, len(piece)))
                self._protocol.data_received(piece)
            elif not self._protocol.eof_received():
                self.close()

    def acknowledge(self, count: int) -> None:
        """Take note that the other side has read so many bytes."""
        self._on_the_way_bytes -= count
        if not self.is_gone:
            self._send()

    def _lose(self, error: OSError | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)
        self._protocol = None
        self.arrivals.close()

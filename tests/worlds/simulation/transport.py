"""One end of a connection of a world: a stream of bytes in memory, as an asyncio transport."""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.worlds.simulation.memory_sockets import AcceptedSocket, Arrivals
from tests.worlds.simulation.simulated_loop import SimulatedLoop

if TYPE_CHECKING:
    from tests.worlds.simulation.network import Network

# So much may be on its way or unread at the other end: the buffers of both systems.
_WINDOW_BYTES: Final = 256 << 10
# Above this much that is not even sent, the writer is told to pause, and below the second to go on.
_HIGH_BYTES: Final = 64 << 10
_LOW_BYTES: Final = 16 << 10


def system_error(number: int) -> OSError:
    """Return one of the system's errors."""
    return OSError(number, os.strerror(number))


class MemoryTransport(asyncio.Transport):
    """One end of a connection. The network makes both."""

    peer: "MemoryTransport"

    def __init__(
        self,
        network: "Network",
        loop: SimulatedLoop,
        own: tuple[str, int],
        other: tuple[str, int],
        *,
        is_client: bool = False,
    ) -> None:
        self._accepted: AcceptedSocket | None = None
        self._names = {"sockname": own, "peername": other}
        self.loop = loop
        self.is_client = is_client
        self.is_gone = False  # the system has closed it
        self.written_at = 0.0  # when its process wrote to it last, in the world's time
        self._is_lost = False  # nothing that is sent arrives
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
        self.written_at = self._network.timeline.now
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
            self.call(self._lose, system_error(number))

    def sever(self, *, resets: bool) -> None:
        """End the connection from between its ends, as a proxy does: with a reset to both, or in an orderly way."""
        for end in (self, self.peer):
            end.to_peer(partial(end.peer.fail, errno.ECONNRESET) if resets else partial(end.peer.arrive, None))
        self.lose()

    def lose(self) -> None:
        """Let nothing arrive any more at either end, as a firewall that has forgotten the connection."""
        self._is_lost = self.peer._is_lost = True

    def _send(self) -> None:
        while self._unsent and self._on_the_way_bytes < _WINDOW_BYTES:
            data = self._unsent.popleft()
            self._unsent_bytes -= len(data)
            self._on_the_way_bytes += len(data)
            for piece in self._network.pieces(data):
                self._send_piece(piece)
        if self._is_writer_paused and self._unsent_bytes < _LOW_BYTES and self._protocol is not None:
            self._is_writer_paused = False
            self.loop.call_soon(self._protocol.resume_writing)
        if not self._unsent and (self._is_closing or self._has_ended) and not self.is_gone:
            self.to_peer(partial(self.peer.arrive, None))
            if self._is_closing:
                self.is_gone = True
                self.loop.call_soon(self._lose, None)

    def _send_piece(self, piece: bytes) -> None:
        broken = self._network.route(self.loop.name, self.peer.loop.name).take_break(len(piece))
        if broken is None:
            self.to_peer(partial(self.peer.arrive, piece))
        else:
            if broken.bytes_left:
                self.to_peer(partial(self.peer.arrive, piece[: broken.bytes_left]))
            self.sever(resets=broken.resets)

    def to_peer(self, action: Callable[[], None]) -> None:
        """Let something arrive at the other end, after all that was sent before."""
        if self._is_lost:
            return
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

"""Sockets of a world: those that listen, and what the system knows of a connection that one of them has accepted."""

import socket
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tests.worlds.simulation.network import Network
    from tests.worlds.simulation.transport import MemoryTransport

_FIRST_NUMBER = 1 << 20  # beyond what the system gives to files


class ListeningSocket:
    """A socket that listens. Copies share what has arrived; it listens until all are closed."""

    def __init__(self, network: "Network", address: tuple[str, int], copy_of: "ListeningSocket | None" = None) -> None:
        self.waiting: deque[MemoryTransport] = deque() if copy_of is None else copy_of.waiting
        self._network = network
        self._address = address
        self._number = network.open_listener(address, self, _FIRST_NUMBER)

    def fileno(self) -> int:
        return self._number

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def settimeout(self, value: float | None) -> None:
        """Never waits in any case."""

    def accept(self) -> "tuple[AcceptedSocket, tuple[str, int]]":
        """Return the next connection. Raises BlockingIOError if there is none."""
        if not self.waiting:
            raise BlockingIOError
        transport = self.waiting.popleft()
        accepted = AcceptedSocket(transport)
        return accepted, accepted.getpeername()

    def dup(self) -> "ListeningSocket":
        return ListeningSocket(self._network, self._address, self)

    def close(self) -> None:
        self._network.close_listener(self._address, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class AcceptedSocket:
    """A connection that was accepted, before an event loop uses it, and afterwards what it says of its socket."""

    def __init__(self, transport: "MemoryTransport") -> None:
        self.transport = transport

    def fileno(self) -> int:
        """Return a file of the system's that can be polled for what has arrived, and for the end."""
        return self.transport.arrivals.fileno()

    def getpeername(self) -> tuple[str, int]:
        name: tuple[str, int] = self.transport.get_extra_info("peername")
        return name

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self.transport.get_extra_info("sockname")
        return name

    def settimeout(self, value: float | None) -> None:
        """Never waits in any case."""

    def setsockopt(self, *_: Any) -> None:
        """Has no options."""

    def close(self) -> None:
        self.transport.abort()


class Arrivals:
    """What has arrived at one end of a connection and is not read, as a file that can be polled.

    The product polls its connections for data, and for their end, before the event loop has read either. A pair of the
    system's sockets, which is made when it is first asked for, shows both: a byte for each piece.
    """

    def __init__(self) -> None:
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._pieces = 0
        self._has_ended = False

    def fileno(self) -> int:
        if self._pair is None:
            self._pair = socket.socketpair()
            self._pair[1].sendall(bytes(self._pieces))
            if self._has_ended:
                self._pair[1].close()
        return self._pair[0].fileno()

    def add(self) -> None:
        """Show one piece more."""
        self._pieces += 1
        if self._pair is not None and not self._has_ended:
            self._pair[1].sendall(b"-")

    def take(self) -> None:
        """Show one piece less."""
        self._pieces -= 1
        if self._pair is not None:
            self._pair[0].recv(1)

    def end(self) -> None:
        """Show that no more will come."""
        self._has_ended = True
        if self._pair is not None:
            self._pair[1].close()

    def close(self) -> None:
        """Free the system's sockets."""
        if self._pair is not None:
            for each in self._pair:
                each.close()

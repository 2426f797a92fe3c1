"""What the kernel knows of a connection before the event loop has read it."""

import asyncio
import select

# POLLRDHUP: the other side sends no more. A system without it (macOS) reports that as POLLHUP.
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Return whether data, or its end, has arrived on an open connection and is not read yet."""
    return not transport.is_closing() and bool(_poll(transport, select.POLLIN).poll(0))


class HangUp:
    """Watches for the end of a connection: the other side has closed it, or sends no more. The second counts as closed,
    as the server closes the connection then."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._is_closing = transport.is_closing
        self._poll = _poll(transport, _HUNG_UP)

    def has_come(self) -> bool:
        """Return whether the other side has ended the connection by now."""
        return self._is_closing() or bool(self._poll.poll(0))


def _poll(transport: asyncio.BaseTransport, events: int) -> select.poll:
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), events)
    return poll

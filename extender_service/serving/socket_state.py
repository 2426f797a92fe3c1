"""What the kernel knows of a connection before the event loop has read it."""

import asyncio
import select

# POLLRDHUP: the other side sends no more. Where a system has none (macOS), POLLHUP says as much.
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether something has come on an open connection, be it its end."""
    return not transport.is_closing() and bool(_poll(transport, select.POLLIN).poll(0))


class HangUp:
    """Tells whether the other side of a connection is gone, or sends no more, which is as good as gone: its end closes
    the connection."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._is_closing = transport.is_closing
        self._poll = _poll(transport, _HUNG_UP)

    def has_come(self) -> bool:
        """Whether it is so now."""
        return self._is_closing() or bool(self._poll.poll(0))


def _poll(transport: asyncio.BaseTransport, events: int) -> select.poll:
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), events)
    return poll

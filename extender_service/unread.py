"""What the kernel knows of a connection before the event loop has read it."""

import asyncio
import select

# POLLRDHUP: the other side sends no more. Where a system has none (macOS), POLLHUP says as much.
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether something has come on an open connection, be it its end."""
    return not transport.is_closing() and _polled(transport, select.POLLIN)


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the other side is gone, or sends no more, which is as good as gone: its end closes a connection."""
    return transport.is_closing() or _polled(transport, _HUNG_UP)


def _polled(transport: asyncio.BaseTransport, events: int) -> bool:
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), events)
    return bool(poll.poll(0))

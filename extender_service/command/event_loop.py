"""The event loop of both programs: uvloop's, which logs the ordinary end of a connection at debug."""

import asyncio
import logging
from typing import Any, Final

import uvloop

log = logging.getLogger(__name__)

# How uvloop's RuntimeError ends where something is written to a connection that is closed. uvloop itself may do so: it
# sends the rest of a TLS handshake also if the connection was given up just as the handshake ended.
_CLOSED: Final = "the handler is closed"


def new_event_loop() -> uvloop.Loop:
    """Return an event loop that logs the ordinary end of a connection at debug."""
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(log_failure)
    return loop


def log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what fails in the event loop, where no caller gets the error.

    That a connection has gone is no defect: the request that used it fails, and the next one opens another. All else is
    logged as without this handler, as an error with its traceback.
    """
    error = context.get("exception")
    is_of_connection = "transport" in context and "protocol" in context
    if is_of_connection and (isinstance(error, OSError) or _is_closed(error)):
        log.debug("a connection has gone", extra={"error": error, "what": context.get("message")})
    else:
        loop.default_exception_handler(context)


def _is_closed(error: object) -> bool:
    return isinstance(error, RuntimeError) and str(error).endswith(_CLOSED)

"""What plugins raise, and the error that ends the cycle for it."""

import asyncio
import logging

from extender_service.kube.parsing.quantities import QuantityError

log = logging.getLogger(__name__)

# What a call of a plugin may raise. A method that is not a coroutine cannot be cancelled itself: CancelledError is
# the outcome of another task, which the plugin looked at.
RAISED = (Exception, asyncio.CancelledError)


class PluginError(Exception):
    """Raised by a plugin to end the cycle with this message, where that is no fault of the plugin itself."""


class NoTimeLeftError(PluginError):
    """Raised after the deadline of a decision."""

    def __init__(self) -> None:
        super().__init__("the time for this decision is over (--decision-timeout)")


class CycleError(Exception):
    """The cycle failed, as opposed to the pod not fitting; the text says what went wrong, and in which plugin."""


def logged_failure(doing: str, error: BaseException) -> CycleError:
    """Return the error for an exception of a plugin, and log it if it is the plugin's own fault.

    `doing` says which plugin ran.
    """
    if is_fault(error):
        log.error("a plugin failed", exc_info=error, extra={"doing": doing})
    return CycleError(f"{doing}: {text_of(error)}")


def is_fault(error: BaseException) -> bool:
    """Return whether an exception is the fault of the plugin that raised it, so that its traceback is of use."""
    return not isinstance(error, PluginError | QuantityError)


def text_of(error: BaseException) -> str:
    """Return an exception of a plugin as errors have it: with its type if it is the plugin's own fault."""
    try:
        text = str(error)
    except Exception:
        text = "<exception str() failed>"  # as in a traceback
    return f"{type(error).__name__}: {text}" if is_fault(error) else text

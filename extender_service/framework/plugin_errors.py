"""What plugins raise, and how errors and logs say it."""

import asyncio

from extender_service.kube.parsing.quantities import QuantityError

# What a call of a plugin may raise. A method that is not a coroutine cannot be cancelled itself: CancelledError is
# the outcome of another task, which the plugin looked at.
RAISED = (Exception, asyncio.CancelledError)


class PluginError(Exception):
    """Raised by a plugin to end the cycle with this message, where that is no fault of the plugin itself."""


class NoTimeLeftError(PluginError):
    """Raised after the deadline of a decision."""

    def __init__(self) -> None:
        super().__init__("the time for this decision is over (--decision-timeout)")


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

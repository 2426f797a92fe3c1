"""How long the events of the watch take to handle (event_handling_duration_seconds)."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple, Protocol, TypeVar

from extender_service.seams import Clock


class EventTiming(NamedTuple):
    """Receives the label of an event, and how many seconds of `clock` it took."""

    clock: Clock
    handled: Callable[[str, float], None]


def _ignore(label: str, seconds: float) -> None:
    del label, seconds


UNTIMED = EventTiming(lambda: 0.0, _ignore)


class _Timed(Protocol):
    @property
    def timing(self) -> EventTiming: ...


Handler = TypeVar("Handler", bound=_Timed)
Argument = TypeVar("Argument")


def timed(
    handle: Callable[[Handler, Argument], Sequence[str]],
) -> Callable[[Handler, Argument], None]:
    """Decorate a method that handles a change and returns the labels of the events that it was."""

    @wraps(handle)
    def run(handler: Handler, argument: Argument) -> None:
        clock, handled = handler.timing
        started = clock()
        for label in handle(handler, argument):
            handled(label, clock() - started)

    return run

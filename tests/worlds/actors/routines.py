"""What actors do, written as coroutines that the timeline runs: without an event loop, tasks, or a process."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
Resume = Callable[[Any], None]


class Until(Generic[_T]):
    """Something to await. `register` gets what to call with the result, or with an exception to raise; not at once."""

    def __init__(self, register: Callable[[Resume], None]) -> None:
        self._register = register

    def __await__(self) -> Generator[Callable[[Resume], None], Any, _T]:
        result: _T = yield self._register
        return result


def start(coroutine: Coroutine[Callable[[Resume], None], Any, None]) -> None:
    """Run a coroutine up to its first wait; what it waits for runs it on."""

    def resume(outcome: Any) -> None:
        try:
            register = coroutine.throw(outcome) if isinstance(outcome, Exception) else coroutine.send(outcome)
        except StopIteration:
            return
        register(resume)

    resume(None)

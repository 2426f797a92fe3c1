"""Turns of writes about pods: few go to the API server at once, and one namespace holds up no other.

Without turns, a binding would wait at the client's rate limit behind thousands of other writes. But a webhook that is
called for some namespaces may hang, or refuse after its timeout. So a write that hangs gives its turn back, and goes on
without one. A namespace of which many writes hang gets no turn until fewer do: the client has connections for so many
requests only, and bindings need some. Namespaces take turns, so that a burst in one delays no other. Urgent writes
have their turns before all others.

    asked for ──▶ has a turn ──▶ ended
                      │            ▲
                      └──▶ hangs ──┘   (the turn is another's)
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

# A write hangs if it takes longer than this, besides its wait at the client's rate limit. An API server that works
# answers within milliseconds.
HANG_SECONDS: Final = 1.0
# From so many hanging writes on, a namespace gets no turn. Those that had one by then may hang, too.
MOST_HANGING_IN_NAMESPACE: Final = 10
# Of all namespaces together: a quarter of the writes that the client has under way at once.
MOST_HANGING: Final = 250


def not_held_back() -> float:
    """Return how long no rate limit holds back a request."""
    return 0.0


class Turn:
    """A turn for writes about one pod, one after the other."""

    __slots__ = ("_is_hanging", "_timer", "_turns", "namespace")

    def __init__(self, turns: "WriteTurns", namespace: str) -> None:
        self.namespace = namespace
        self._turns = turns
        self._is_hanging = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Note that a write begins now, and that the one before has ended."""
        if not self._is_hanging:
            self._watch(HANG_SECONDS + self._turns.held_back_seconds())

    def end(self) -> None:
        """Give the turn back, unless that was done as a write hung."""
        if self._timer is not None:
            self._timer.cancel()
        self._turns.end(self, is_hanging=self._is_hanging)

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._hang)

    def _hang(self) -> None:
        self._is_hanging = self._turns.let_hang(self)
        if not self._is_hanging:
            self._watch(HANG_SECONDS)


Start = Callable[[Turn], bool]
"""Begins a write with a turn; returns whether it uses the turn, which it has to end then."""


class WriteTurns:
    """At most `most` writes have a turn. `held_back_seconds` returns how long the rate limit would hold back a request
    that was made now."""

    def __init__(self, most: int, held_back_seconds: Callable[[], float]) -> None:
        self.held_back_seconds = held_back_seconds
        self._free = most
        self._hanging: Counter[str] = Counter()
        self._all_hanging = 0
        self._first, self._others = _Waiting(), _Waiting()

    def ask(self, namespace: str, start: Start, *, goes_first: bool = False) -> None:
        """Call `start` with a turn, at once or later; if it `goes_first`, before all that do not."""
        (self._first if goes_first else self._others).add(namespace, start)
        self._grant()

    def take_free(self, namespace: str) -> Turn | None:
        """Return a turn, None if there is none for the namespace now."""
        if not self._free or self.is_held_up(namespace):
            return None
        self._free -= 1
        return Turn(self, namespace)

    def is_held_up(self, namespace: str) -> bool:
        """Return whether so many writes of a namespace hang that it gets no turn."""
        return self._hanging[namespace] >= MOST_HANGING_IN_NAMESPACE

    @property
    def has_free(self) -> bool:
        """Whether there is a turn for a namespace that is not held up."""
        return self._free > 0

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[Turn]:
        """Wait for a turn, which ends with the context."""
        granted: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()

        def start(turn: Turn) -> bool:
            if granted.done():  # its task was cancelled
                return False
            granted.set_result(turn)
            return True

        self.ask(namespace, start)
        try:
            turn = await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # the turn came in the same moment
                granted.result().end()
            raise
        try:
            yield turn
        finally:
            turn.end()

    def let_hang(self, turn: Turn) -> bool:
        """Take back the turn of a write that hangs, for another write; returns False if too many hang already."""
        if self._all_hanging >= MOST_HANGING:
            return False
        self._all_hanging += 1
        self._hanging[turn.namespace] += 1
        self._free += 1
        self._grant()
        return True

    def end(self, turn: Turn, *, is_hanging: bool) -> None:
        """Note that a turn has ended."""
        if is_hanging:
            self._all_hanging -= 1
            self._hanging[turn.namespace] -= 1
            if not self._hanging[turn.namespace]:
                del self._hanging[turn.namespace]
        else:
            self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._free and (taken := self._first.take(self.is_held_up) or self._others.take(self.is_held_up)):
            namespace, start = taken
            self._free -= 1
            if not start(Turn(self, namespace)):
                self._free += 1


class _Waiting:
    """What starts with a turn, by namespace; the namespace that had none for longest comes first."""

    def __init__(self) -> None:
        self._starts: OrderedDict[str, deque[Start]] = OrderedDict()

    def add(self, namespace: str, start: Start) -> None:
        self._starts.setdefault(namespace, deque()).append(start)

    def take(self, is_held_up: Callable[[str], bool]) -> tuple[str, Start] | None:
        """Take what starts next, with its namespace; None if all are held up, or none waits."""
        # Few are held up, as each has many hanging writes.
        namespace = next((namespace for namespace in self._starts if not is_held_up(namespace)), None)
        if namespace is None:
            return None
        starts = self._starts[namespace]
        start = starts.popleft()
        if starts:
            self._starts.move_to_end(namespace)
        else:
            del self._starts[namespace]
        return namespace, start

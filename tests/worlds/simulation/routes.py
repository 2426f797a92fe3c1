"""One way between two hosts, and what faults do to what is sent on it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Break:
    """Ends the connection whose bytes are the next so many on a route, right behind them."""

    bytes_left: int
    resets: bool


@dataclass
class Route:
    """What is sent from one host to another. `delays` return by how many seconds more each piece is late."""

    delays: list[Callable[[], float]] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    _held: list[Callable[[], None]] | None = None

    def delay_seconds(self) -> float:
        """Return by how much faults delay the next piece."""
        return sum(delay() for delay in self.delays) if self.delays else 0

    def arrive(self, action: Callable[[], None]) -> None:
        """Let something arrive, unless the route is cut; then it arrives once the route is mended."""
        if self._held is None:
            action()
        else:
            self._held.append(action)

    def cut(self) -> None:
        """Let nothing arrive from now on. No host learns of it."""
        if self._held is None:
            self._held = []

    def mend(self) -> None:
        """Let everything arrive again, also what was sent meanwhile."""
        held, self._held = self._held or (), None
        for action in held:
            action()

    def take_break(self, count: int) -> Break | None:
        """Count bytes that are sent; return a break if it is among them, `bytes_left` from their first."""
        if self.breaks:
            first = self.breaks[0]
            if first.bytes_left <= count:
                return self.breaks.pop(0)
            first.bytes_left -= count
        return None

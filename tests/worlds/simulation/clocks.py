"""The clocks of one simulated machine, over the world's time."""

from collections.abc import Callable

from tests.worlds.simulation.timeline import Timeline

# 2026-01-01T00:00:00Z, when each world begins.
_WORLD_BEGINS = 1_767_225_600
# Drifts of several faults together are no slower and no faster than that: leases allow for a tenth.
_LEAST_DRIFT, _MOST_DRIFT = 0.92, 1.08


class MachineClocks:
    """What the clocks of a machine show. They may be skewed, drift, and jump.

    The clock that never goes back (CLOCK_MONOTONIC) has a rate of its own, stops while the machine sleeps, and is
    never set. The wall clock follows it, apart from `set_wall`. CLOCK_BOOTTIME counts sleep, too.
    """

    def __init__(
        self, timeline: Timeline, *, uptime: float = 1000.0, skew_seconds: float = 0.0, rate: float = 1.0
    ) -> None:
        """`uptime` is for how long the machine has run; `skew_seconds` by how much its wall clock is ahead.

        `on_change` are called when timers may be due sooner than it seemed.
        """
        self.on_change: list[Callable[[], None]] = []
        self._timeline = timeline
        self._counted_at = timeline.now
        self._uptime = uptime
        self._rate = self._first_rate = self._wanted_rate = rate
        self._slept_seconds = 0.0
        self._slept_from: float | None = None
        self._wall_ahead = _WORLD_BEGINS + self._counted_at + skew_seconds - uptime

    def monotonic(self) -> float:
        """Return seconds that never go back, and do not count sleep."""
        return self._uptime + (self._timeline.now - self._counted_at) * self._rate

    def boot(self) -> float:
        """Return seconds that never go back, and count sleep."""
        return self.monotonic() + self._slept_seconds

    def wall(self) -> float:
        """Return seconds since 1970."""
        return self.boot() + self._wall_ahead

    def world_time_of(self, monotonic: float) -> float:
        """Return the world's time at which `monotonic` will return this value, if the rate stays as it is."""
        return self._counted_at + (monotonic - self._uptime) / self._rate

    def set_rate(self, rate: float) -> None:
        """Drift: from now on, this clock runs `rate` times as fast as the world's."""
        self._uptime, self._counted_at, self._rate = self.monotonic(), self._timeline.now, rate
        self._wanted_rate = rate
        self._report_change()

    def set_wall(self, seconds: float) -> None:
        """Jump: set the wall clock ahead, or back if `seconds` is negative."""
        self._wall_ahead += seconds

    def change_rate(self, factor: float) -> None:
        """Drift: from now on, run so many times as fast as until now, within bounds of the rate that it began with.

        What is beyond these counts again once other drifts end.
        """
        wanted_rate = self._wanted_rate * factor
        self.set_rate(min(max(wanted_rate, self._first_rate * _LEAST_DRIFT), self._first_rate * _MOST_DRIFT))
        self._wanted_rate = wanted_rate

    @property
    def is_asleep(self) -> bool:
        """Return whether the machine is asleep. What its clocks show then is not defined."""
        return self._slept_from is not None

    def fall_asleep(self) -> None:
        """Begin to sleep."""
        self._slept_from = self.monotonic()

    def wake(self) -> None:
        """End the sleep."""
        assert self._slept_from is not None, "awake"
        self._slept_seconds += self.monotonic() - self._slept_from
        self._uptime, self._counted_at = self._slept_from, self._timeline.now
        self._slept_from = None
        self._report_change()

    def _report_change(self) -> None:
        for notify in self.on_change:
            notify()

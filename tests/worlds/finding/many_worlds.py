"""Many worlds on all cores: what came of them together, and which failed."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TextIO

import msgspec

from tests.worlds.finding.command_line import command
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.world_run import WorldEnd, run_world
from tests.worlds.scenarios import Scenario

# A line of progress where none can be written over comes so often.
_LINE_SECONDS = 10.0
# So many failed worlds are shown at the end, and so much of why each failed.
_MOST_SHOWN = 10
_MOST_VIOLATIONS = 5


@dataclass(frozen=True)
class Failed:
    """A world in which something went wrong: what was violated, or why it has no end."""

    scenario: Scenario
    violations: tuple[str, ...]


@dataclass
class Totals:
    """What came of worlds together. `ends` are those that ended, by seed."""

    ends: dict[int, WorldEnd] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    simulated_seconds: float = 0.0
    peak_bytes: int = 0
    real_seconds: float = 0.0

    @property
    def count(self) -> int:
        """How many worlds ended, well or not."""
        return len(self.ends) + sum(failed.scenario.seed not in self.ends for failed in self.failed)

    def first_failed(self) -> list[Failed]:
        """Return what failed in order of the seeds."""
        return sorted(self.failed, key=lambda failed: failed.scenario.seed)

    def shown(self) -> str:
        """Return a line with the figures."""
        speed = self.simulated_seconds / max(self.real_seconds, 1e-9)
        return (
            f"{self.count} worlds, {self.simulated_seconds / 3600:.1f} hours of clusters in {self.real_seconds:.0f} s, "
            f"{speed:.0f} times real time; at most {self.peak_bytes / 2**20:.0f} MiB; {len(self.failed)} failed"
        )


@dataclass(frozen=True)
class Plan:
    """Which worlds to run: of how many seeds, at most for how long, and until how many have failed.

    Those after `first` are like it, unless `draw` is given, which makes one for each seed.
    """

    first: Scenario
    worlds: int | None = None
    seconds: float | None = None
    failures: int | None = None
    draw: Callable[[int], Scenario] | None = None


def run_worlds(plan: Plan, limits: Limits, progress: "Progress") -> Totals:
    """Run worlds, each in a process of its own, and count what comes of them."""
    totals, started = Totals(), time.monotonic()

    def is_over() -> bool:
        is_late = plan.seconds is not None and time.monotonic() - started >= plan.seconds
        return is_late or (plan.failures is not None and len(totals.failed) >= plan.failures)

    def tick() -> None:
        totals.real_seconds = time.monotonic() - started
        progress.show(totals)

    for ended in forked(_until(is_over, _scenarios(plan)), _work, limits, tick):
        totals.peak_bytes = max(totals.peak_bytes, ended.peak_bytes)
        if ended.answer is None:
            failed = Failed(ended.task, (ended.why,))
        else:
            end = msgspec.json.decode(ended.answer, type=WorldEnd)
            totals.ends[ended.task.seed] = end
            totals.simulated_seconds += end.simulated_seconds
            failed = Failed(ended.task, tuple(end.violations))
        if failed.violations:
            totals.failed.append(failed)
            progress.say(f"seed {ended.task.seed}: {failed.violations[0].splitlines()[-1]}")
    totals.real_seconds = time.monotonic() - started
    progress.end()
    return totals


def report(totals: Totals) -> Iterator[str]:
    """Yield the lines of a report: the figures, and of the first failed worlds why, and how to run each again."""
    yield totals.shown()
    failed = totals.first_failed()
    for each in failed[:_MOST_SHOWN]:
        yield ""
        yield f"seed {each.scenario.seed} failed; to run it again, or to shrink it with --shrink:"
        yield f"  {command(each.scenario)}"
        yield from (f"  {line}" for why in each.violations[:_MOST_VIOLATIONS] for line in why.splitlines())
        if len(each.violations) > _MOST_VIOLATIONS:
            yield f"  and {len(each.violations) - _MOST_VIOLATIONS} more"
    if len(failed) > _MOST_SHOWN:
        seeds = ", ".join(str(each.scenario.seed) for each in failed[_MOST_SHOWN:])
        yield f"\nso did {seeds}"


class Progress:
    """How far worlds have come: a line that is written over on a terminal, elsewhere a line from time to time."""

    def __init__(self, worlds: int | None, stream: TextIO = sys.stderr) -> None:
        self._of = "" if worlds is None else f" of {worlds}"
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._shown_at = time.monotonic()

    def show(self, totals: Totals) -> None:
        """Show the figures, if it is time to."""
        line = totals.shown().replace(" worlds", f"{self._of} worlds", 1)
        if self._is_terminal:
            self._stream.write(f"\r\033[K{line}")
        elif time.monotonic() - self._shown_at >= _LINE_SECONDS:
            self._shown_at = time.monotonic()
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self._stream.write(f"\r\033[K{line}\n" if self._is_terminal else f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        """Take the figures away, which the report shows."""
        if self._is_terminal:
            self._stream.write("\r\033[K")
            self._stream.flush()


def _scenarios(plan: Plan) -> Iterator[Scenario]:
    seeds: Iterable[int] = count(plan.first.seed)
    draw = plan.draw or (lambda seed: replace(plan.first, seed=seed))
    return (draw(seed) for seed in islice(seeds, plan.worlds))


def _until(is_over: Callable[[], bool], scenarios: Iterable[Scenario]) -> Iterator[Scenario]:
    for scenario in scenarios:
        if is_over():
            return
        yield scenario


def _work(scenario: Scenario) -> bytes:
    end, _ = run_world(scenario)
    return msgspec.json.encode(end)

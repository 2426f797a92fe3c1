"""Shrinks a world that failed: fewer parts and less time, as long as the same goes wrong.

Parts are left out by name, which changes no draw for the others (see tests/worlds/parts.py). This is delta debugging
(Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002), one kind of parts after the other.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.worlds.finding.world_run import WorldEnd
from tests.worlds.scenarios import Scenario

# Parts of these kinds go first: which faults it takes says most about a defect.
_KINDS_FIRST = ("fault", "replica", "pod", "node")
# A world ends so long after what went wrong in its midst.
_AFTERWARDS_SECONDS = 1.0
# So many words say what went wrong; those with a digit are names or amounts.
_KIND_WORDS = 8

RunAll = Callable[[Sequence[Scenario]], Sequence[WorldEnd]]


@dataclass(frozen=True)
class Shrunk:
    """The smallest scenario that was found, what came of it, and how many worlds that took."""

    scenario: Scenario
    end: WorldEnd
    runs: int

    def parts(self) -> list[str]:
        """Return the names of the parts that are left."""
        return _left(self.scenario, self.end)


def kind_of(violation: str) -> str:
    """Return what went wrong, without when, where and how much: of one kind are those that are equal in this."""
    line = re.sub(r"^[\d.]+ ", "", violation.splitlines()[-1])
    return " ".join([word for word in line.split() if not re.search(r"\d", word)][:_KIND_WORDS])


class Shrinking:
    """The search for a smaller scenario, for a bounded real time. `shrink` does it."""

    def __init__(
        self, run_all: RunAll, *, seconds: float, at_once: int = 1, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """`run_all` runs worlds, `at_once` of which cost as much time as one. `say` is told how far the search is."""
        self._run_all = run_all
        self._ends_at = time.monotonic() + seconds
        self._at_once = at_once
        self._say = say
        self._kind = ""
        self._runs = 0

    def shrink(self, scenario: Scenario) -> Shrunk:
        """Return the smallest scenario found in which the same goes wrong. Raises ValueError if nothing does."""
        [end] = self._run_all([scenario])
        if not end.violations:
            raise ValueError("nothing goes wrong in this world")
        self._kind = kind_of(end.violations[0])
        self._runs = 1
        best, before = Shrunk(scenario, end, 1), None
        while best.scenario != before and not self._is_over():
            before = best.scenario
            best = self._shorter(best)
            for kind in _kinds(best.parts()):
                best = self._fewer(best, kind)
        return best

    def _shorter(self, best: Shrunk) -> Shrunk:
        """End sooner: soon after what went wrong, or a while after the last part came if only the end shows it."""
        came = [best.end.parts[name] for name in best.parts()]
        ends = [self._first_time(best.end) + _AFTERWARDS_SECONDS, max(came, default=0.0) + best.scenario.quiet_seconds]
        for until in sorted(round(each, 3) for each in ends):
            if until >= best.end.simulated_seconds:
                break
            # What shows in the end only, such as a pod on no node, may be there because the end came too soon.
            is_quiet = until >= round(ends[1], 3)
            found = self._smaller([replace(best.scenario, until=until)])
            if found is not None and (is_quiet or self._first_time(found[1].end) < until):
                return found[1]
        return best

    def _fewer(self, best: Shrunk, kind: str) -> Shrunk:
        """Leave out parts of a kind: all of them, then halves, and so on down to one."""
        size = len(_of_kind(best.parts(), kind))
        while size:
            start = 0
            while start < len(left := _of_kind(best.parts(), kind)) and not self._is_over():
                starts = range(start, len(left), size)[: self._at_once]
                without = [best.scenario.without.union(left[each : each + size]) for each in starts]
                found = self._smaller([replace(best.scenario, without=names) for names in without])
                if found is None:
                    start = starts[-1] + size
                else:  # what comes after the parts that are gone begins where they began
                    start, best = starts[found[0]], found[1]
                    self._say(f"{self._runs} worlds: {len(best.parts())} parts left")
            size //= 2
        return best

    def _smaller(self, scenarios: Sequence[Scenario]) -> tuple[int, Shrunk] | None:
        """Return the first scenario in which the same goes wrong, and which one it is."""
        ends = self._run_all(scenarios)
        self._runs += len(scenarios)
        for number, (scenario, end) in enumerate(zip(scenarios, ends, strict=True)):
            if self._same(end):
                return number, Shrunk(scenario, end, self._runs)
        return None

    def _same(self, end: WorldEnd) -> list[str]:
        return [violation for violation in end.violations if kind_of(violation) == self._kind]

    def _first_time(self, end: WorldEnd) -> float:
        """Return when it first went wrong; the end of the world if the violation does not say."""
        times = [re.match(r"[\d.]+ ", violation) for violation in self._same(end)]
        return min([float(each[0]) for each in times if each], default=end.simulated_seconds)

    def _is_over(self) -> bool:
        return time.monotonic() > self._ends_at


def _left(scenario: Scenario, end: WorldEnd) -> list[str]:
    return [name for name in end.parts if name not in scenario.without]


def _of_kind(names: Sequence[str], kind: str) -> list[str]:
    return [name for name in names if _kind(name) == kind]


def _kinds(names: Sequence[str]) -> list[str]:
    kinds = dict.fromkeys(_kind(name) for name in names)
    return [*(kind for kind in _KINDS_FIRST if kind in kinds), *(kind for kind in kinds if kind not in _KINDS_FIRST)]


def _kind(name: str) -> str:
    return name.rpartition("-")[0] or name

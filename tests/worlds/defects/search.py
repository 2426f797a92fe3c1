"""The search for defects: small worlds of the product with each, until one fails.

A world of the product as it is comes first. It shows whether the seed fails without a defect, and which defects it
reaches: with the others, it would have the same history. A world ends where something goes wrong first.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tests.worlds.defects.changed_code import change_module
from tests.worlds.defects.planted import Change, Defect, changes
from tests.worlds.defects.reached import REACHED, mark
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.small_worlds import small_world
from tests.worlds.finding.world_run import WORLD_FAILED, end_at_first_violation, run_world
from tests.worlds.scenarios import Mode

# So many seeds are looked at together, so that all cores have work.
_AT_ONCE: Final = 10
# A small world without a defect: the mode of `serve`, what is wanted, and the seed.
_Plain = tuple[Mode | None, frozenset[str], int]
_Task = tuple[Defect, int]
_Reached = dict[_Plain, frozenset[str]]


@dataclass(frozen=True)
class Found:
    """The first seed by which a defect was found, and what was violated."""

    seed: int
    violation: str


class Search:
    """Runs worlds of all defects by turns, in processes that are forked; those of some seeds before those of the next.

    A world that fails without the defect, too, does not count, nor one that is too slow. `found` is by name, `worlds`
    is how many seeds were tried for each, and `reached` in how many of them its code ran; all grow while `run` goes on.
    Histories depend on Python's hash seed, which must be 0.
    """

    def __init__(self, defects: Sequence[Defect], limits: Limits) -> None:
        self.found: dict[str, Found] = {}
        self.worlds = {defect.name: 0 for defect in defects}
        self.reached = {defect.name: 0 for defect in defects}
        self._defects = defects
        self._limits = limits
        self._changes = {defect.name: changes(defect) for defect in defects}

    def run(self, seeds: range, seconds: float) -> Iterator[str]:
        """Search; yield a line for each defect that is found. Begins no more worlds after so much real time."""
        ends_at = time.monotonic() + seconds
        for first in range(0, len(seeds), _AT_ONCE):
            left = [defect for defect in self._defects if defect.name not in self.found]
            if not left or time.monotonic() >= ends_at:
                return
            some = seeds[first : first + _AT_ONCE]
            reached: _Reached = {}
            yield from self._run_plain(some, left, reached)
            yield from self._run_with_defects(some, left, reached, ends_at)

    def _run_plain(self, seeds: Iterable[int], left: Sequence[Defect], reached: _Reached) -> Iterator[str]:
        """Run worlds without any defect, and note what those reach that do not fail; yield a line for each other."""
        kinds = dict.fromkeys((defect.mode, defect.wanted) for defect in left)
        tasks = [(mode, wanted, seed) for seed in seeds for mode, wanted in kinds]
        for ended in forked(tasks, self._see_what_is_reached, self._limits):
            if ended.answer is None:
                yield f"seed {ended.task[-1]} without a defect: {ended.why}"
                continue
            violations, names = msgspec.json.decode(ended.answer, type=tuple[list[str], frozenset[str]])
            if violations:
                yield f"seed {ended.task[-1]} fails without a defect, too: {violations[0]}"
            else:
                reached[ended.task] = names

    def _see_what_is_reached(self, task: _Plain) -> bytes:
        mark(self._changes)
        return msgspec.json.encode((_violations(*task), REACHED))

    def _run_with_defects(
        self, seeds: Iterable[int], left: Sequence[Defect], reached: _Reached, ends_at: float
    ) -> Iterator[str]:
        for ended in forked(self._tasks(seeds, left, reached, ends_at), self._run_with, self._limits):
            defect, seed = ended.task
            # One that was too slow says nothing, as the machine may have other work, nor does an error of the world.
            why = [] if ended.answer is None else msgspec.json.decode(ended.answer, type=list[str])
            why = [line for line in why if not line.endswith(WORLD_FAILED)]
            known = self.found.get(defect.name)
            if why and (known is None or seed < known.seed):
                self.found[defect.name] = Found(seed, why[0])
                yield f"{defect.name}: seed {seed}: {why[0]}"

    def _tasks(
        self, seeds: Iterable[int], left: Sequence[Defect], reached: _Reached, ends_at: float
    ) -> Iterator[_Task]:
        for seed in seeds:
            for defect in left:
                if time.monotonic() < ends_at and defect.name not in self.found:
                    self.worlds[defect.name] += 1
                    if defect.name in reached.get((defect.mode, defect.wanted, seed), ()):
                        self.reached[defect.name] += 1
                        yield defect, seed

    def _run_with(self, task: _Task) -> bytes:
        defect, seed = task
        _plant_here(self._changes[defect.name])
        return msgspec.json.encode(_violations(defect.mode, defect.wanted, seed))


def _plant_here(of: Sequence[Change]) -> None:
    for module, old, new in of:
        change_module(module, old, new)


def _violations(mode: Mode | None, wanted: frozenset[str], seed: int) -> list[str]:
    return run_world(small_world(seed, mode, wanted), end_at_first_violation)[0].violations

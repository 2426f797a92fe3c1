"""The search for defects: small worlds of the product with each, until one fails."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tests.worlds.defects.changed_code import change_module
from tests.worlds.defects.planted import Change, Defect, changes
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.small_worlds import small_world
from tests.worlds.finding.world_run import WORLD_FAILED, run_world

_Task = tuple[Defect, int]
# No violations.
_NOTHING: Final = b"[]"


@dataclass(frozen=True)
class Found:
    """The first seed by which a defect was found, and what was violated."""

    seed: int
    violation: str


class Search:
    """Runs worlds of all defects by turns, in processes that are forked; those of a seed before those of the next.

    A world that fails without the defect, too, does not count, nor one that is too slow. `found` is by name, and
    `worlds` how many were run of each; both grow while `run` goes on. Histories depend on Python's hash seed, which
    must be 0.
    """

    def __init__(self, defects: Sequence[Defect], limits: Limits) -> None:
        self.found: dict[str, Found] = {}
        self.worlds = {defect.name: 0 for defect in defects}
        self._defects = defects
        self._limits = limits
        self._changes = {defect.name: changes(defect) for defect in defects}
        self._fails_anyway: dict[tuple[str | None, int], bool] = {}

    def run(self, seeds: range, seconds: float) -> Iterator[str]:
        """Search; yield a line for each defect that is found. Begins no more worlds after so much real time."""
        for ended in forked(self._tasks(seeds, time.monotonic() + seconds), self._work, self._limits):
            defect, seed = ended.task
            self.worlds[defect.name] += 1
            # One that was too slow says nothing, as the machine may have other work, nor does an error of the world.
            why = [] if ended.answer is None else msgspec.json.decode(ended.answer, type=list[str])
            why = [line for line in why if not line.endswith(WORLD_FAILED)]
            known = self.found.get(defect.name)
            is_first = known is None or seed < known.seed
            if why and is_first and not self._fails_without(defect, seed):
                self.found[defect.name] = Found(seed, why[0])
                yield f"{defect.name}: seed {seed}: {why[0]}"

    def _tasks(self, seeds: range, ends_at: float) -> Iterator[_Task]:
        for seed in seeds:
            for defect in self._defects:
                if time.monotonic() >= ends_at:
                    return
                if defect.name not in self.found:
                    yield defect, seed

    def _work(self, task: _Task) -> bytes:
        defect, seed = task
        _plant_here(self._changes[defect.name])
        return _violations(defect, seed)

    def _fails_without(self, defect: Defect, seed: int) -> bool:
        """Return whether a world fails in the product as it is, which this process has."""
        key = (defect.mode, seed)
        if key not in self._fails_anyway:
            (ended,) = forked([(defect, seed)], lambda task: _violations(*task), self._limits)
            self._fails_anyway[key] = ended.answer != _NOTHING
            if self._fails_anyway[key]:
                print(f"seed {seed} fails without a defect, too: {ended.answer!r} {ended.why}", file=sys.stderr)
        return self._fails_anyway[key]


def _plant_here(of: Sequence[Change]) -> None:
    for module, old, new in of:
        change_module(module, old, new)


def _violations(defect: Defect, seed: int) -> bytes:
    return msgspec.json.encode(run_world(small_world(seed, defect.mode))[0].violations)

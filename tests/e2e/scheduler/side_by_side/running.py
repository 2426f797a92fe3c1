"""Pairs of control planes, one with kube-scheduler and one with this program, on which scenarios run side by side."""

import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from extender_service.config.release import OLDEST_MINOR
from tests.e2e.scheduler.side_by_side.catalogue import CONFIGURATION, SCENARIOS
from tests.e2e.scheduler.side_by_side.comparison import AskOracle, Comparison, compare
from tests.e2e.scheduler.side_by_side.recording import record, wait_for_scheduler
from tests.e2e.support.api import APIError
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.releases import deciding_as

# The schedulers mostly wait, for backoffs to be over: scenarios run at once, each on clusters of its own.
DEFAULT_PAIRS = 3
# For how much longer silences last when a scenario that differed is repeated.
_SLOWER = 3


class Pair(NamedTuple):
    """A cluster of kube-scheduler's and one of this program's, both of the release 1.`minor`."""

    stock: ControlPlane
    ours: ControlPlane
    minor: int


@contextmanager
def pairs_of_clusters(
    controlplane: Path, directory: Path, count: int = DEFAULT_PAIRS, *, minor: int = OLDEST_MINOR
) -> Iterator[list[Pair]]:
    """Start pairs of empty clusters of a release, each with its scheduler, and wait until they schedule."""
    with ExitStack() as stack:
        pairs, processes = list[Pair](), list[Process]()
        for number in range(count):
            stock, ours = (_control_plane(stack, controlplane, directory / f"{name}{number}") for name in ("s", "o"))
            processes.append(stock.start_scheduler(CONFIGURATION))
            processes.append(start(ours, CONFIGURATION, options=[deciding_as(minor)]))
            stack.callback(processes[-1].kill)
            pairs.append(Pair(stock, ours, minor))
        for pair in pairs:
            for control_plane in (pair.stock, pair.ours):
                wait_for_scheduler(control_plane)
        yield pairs
        for process in processes:
            process.require_running()


def run(pairs: Iterable[Pair], ask_oracle: AskOracle, names: Iterable[str]) -> Iterator[tuple[str, Comparison]]:
    """Run scenarios on the pairs that are free, and compare each; in the order in which they end.

    A scenario whose step fails, or after which a scheduler is never quiet, differs. One that differs is repeated, with
    more time for each step: on a busy machine, a snapshot may have come before the end of a step.
    """
    free = queue.SimpleQueue[Pair]()
    count = 0
    for pair in pairs:
        free.put(pair)
        count += 1

    def compared(name: str) -> Comparison:
        pair = free.get()
        try:
            first = _compared(pair, ask_oracle, name)
            if not first.differences:
                return first
            return _compared(pair, ask_oracle, name, slower=_SLOWER)._replace(at_first=first.differences)
        finally:
            free.put(pair)

    with ThreadPoolExecutor(count) as pool:
        running: dict[Future[Comparison], str] = {pool.submit(compared, name): name for name in names}
        for done in as_completed(running):
            yield running[done], done.result()


def _compared(pair: Pair, ask_oracle: AskOracle, name: str, *, slower: int = 1) -> Comparison:
    try:
        with ThreadPoolExecutor(1) as other:
            stock = other.submit(record, pair.stock, SCENARIOS[name](), pair.minor, slower=slower)
            ours = record(pair.ours, SCENARIOS[name](), pair.minor, slower=slower)
            return compare(ask_oracle, stock.result(), ours)
    except (APIError, TimeoutError) as error:
        return Comparison([f"it did not end: {error}"], 0, 0)


def _control_plane(stack: ExitStack, controlplane: Path, directory: Path) -> ControlPlane:
    directory.mkdir()
    return stack.enter_context(ControlPlane(controlplane, directory))

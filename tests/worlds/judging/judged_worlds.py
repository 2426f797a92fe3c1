"""Worlds in which pods compete, and what the reference says of the decisions about them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tests.conformance import oracle
from tests.conformance.oracle import Reference
from tests.worlds.judging.cases import WitnessedCase, case_of, differences, is_left_to_chance, oracle_input
from tests.worlds.judging.start_times import StartTimes
from tests.worlds.judging.witness import Witness
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs

# Two nodes have room for some 40 of these pods, a quarter of which preempt others.
NODES: Final = 2
PODS: Final = 60
# Rich worlds have all that decides about victims and reasons. Fewer than a hundred nodes, so that all are looked at.
_RICH_NODES: Final = 5
_RICH_PODS: Final = 80
_RICH: Final = frozenset({
    "budgets", "deletions", "patient", "people", "pod-affinity", "ports", "priorities", "scarcity", "spread",
    "start-times", "taints", "volumes",
})  # fmt: skip
# If more than this share is not written down, too little is judged.
MOST_SKIPPED: Final = 0.2


@dataclass(frozen=True)
class WitnessedWorld:
    """A world that has ended: its cases, how many decisions could not be written down, and what did not hold in it."""

    cases: Sequence[WitnessedCase]
    skipped: int
    violations: Sequence[str]


def plain_world(seed: int, minutes: float, mode: Mode | None = None) -> Scenario:
    """Return a world of pods that differ in cpu and priority, on nodes that are alike."""
    return Scenario(seed, minutes, replicas=2, nodes=NODES, pods=PODS, has_faults=True, mode=mode)


def rich_world(seed: int, minutes: float, mode: Mode | None = None) -> Scenario:
    """Return a world with others in the cluster, and pods that ask for much else; its release is that of the seed."""
    return Scenario(
        seed,
        minutes,
        replicas=2,
        nodes=_RICH_NODES,
        pods=_RICH_PODS,
        has_others=True,
        has_faults=True,
        wanted=_RICH,
        minor=oracle.JUDGED[seed % len(oracle.JUDGED)],
        mode=mode,
    )


def witnessed(scenario: Scenario) -> WitnessedWorld:
    """Run a world, and return what was witnessed."""
    cluster = ScheduledCluster(scenario)
    witness = Witness(cluster.holds.observed)
    if not scenario.has_others:  # otherwise there are kubelets
        StartTimes(cluster.world, cluster.model)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
        violations = [*cluster.problems(), *witness.caches.wrong]
    history, minor = cluster.world.trace.lines, scenario.minor
    cases = [
        case_of(scenario.seed, minor, number, decision, history) for number, decision in enumerate(witness.decisions)
    ]
    return WitnessedWorld(cases, witness.skipped, violations)


def judged(cases: Sequence[WitnessedCase]) -> Iterator[str]:
    """Ask the reference about the cases of a world at once; yield what it would have done otherwise.

    Raises RuntimeError if the oracle cannot be built.
    """
    verdicts = oracle.ask(oracle_input(cases), Reference(cases[0].minor)).splitlines() if cases else []
    for case, line in zip(cases, verdicts, strict=True):
        for difference in differences(case, msgspec.json.decode(line)):
            yield f"{case.name}: {difference}"


class Tally:
    """Counts what was judged in worlds. A preemption is judged as a whole where nothing of it is left to chance."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, world: WitnessedWorld) -> None:
        """Count the cases of a world."""
        self._counts.update(case.outcome for case in world.cases)
        self._counts["chance"] += sum(case.outcome == "preempts" and is_left_to_chance(case) for case in world.cases)
        self._counts["reasons"] += sum(case.reason is not None for case in world.cases)
        self._counts["skipped"] += world.skipped

    def has(self, decisions: int) -> bool:
        """Return whether there were so many preemptions, without those left to chance, and so many pending pods."""
        return min(self._counts["preempts"] - self._counts["chance"], self._counts["pending"]) >= decisions

    @property
    def skipped_too_many(self) -> bool:
        """Whether too few decisions could be written down."""
        taken = self._counts["placed"] + self._counts["preempts"] + self._counts["pending"]
        return are_too_many(self._counts["skipped"], taken)

    def __str__(self) -> str:
        counts = self._counts
        return (
            f"{counts['preempts']} preemptions ({counts['chance']} left to chance), "
            f"{counts['pending']} pods left pending ({counts['reasons']} with a reason), {counts['placed']} placed, "
            f"{counts['skipped']} not written down"
        )


def are_too_many(skipped: int, taken: int) -> bool:
    """Return whether too many are skipped beside those that were written down."""
    return skipped > MOST_SKIPPED * (skipped + taken)

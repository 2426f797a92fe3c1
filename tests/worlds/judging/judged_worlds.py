"""Worlds in which pods compete, and what the reference says of each decision about a pod that fitted nowhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tests.conformance import oracle
from tests.worlds.judging.cases import WitnessedCase, case_of, differences, is_left_to_chance, oracle_input
from tests.worlds.judging.start_times import StartTimes
from tests.worlds.judging.witness import Witness
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs

# Two nodes have room for some 40 of these pods, a quarter of which preempt others.
NODES: Final = 2
PODS: Final = 60


@dataclass(frozen=True)
class WitnessedWorld:
    """A world that has ended: its cases, how many decisions could not be written down, and what did not hold in it."""

    cases: Sequence[WitnessedCase]
    skipped: int
    violations: Sequence[str]


def witnessed(seed: int, minutes: float) -> WitnessedWorld:
    """Run a world of two replicas with faults, and return what was witnessed."""
    cluster = ScheduledCluster(Scenario(seed, minutes, replicas=2, nodes=NODES, pods=PODS, has_faults=True))
    witness = Witness(cluster.holds.observed)
    StartTimes(cluster.world, cluster.model)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
        violations = cluster.problems()
    history = cluster.world.trace.lines
    cases = [case_of(seed, number, decision, history) for number, decision in enumerate(witness.decisions)]
    return WitnessedWorld(cases, witness.skipped, violations)


def judged(cases: Sequence[WitnessedCase]) -> Iterator[str]:
    """Ask the reference about all cases at once; yield what it would have done otherwise.

    Raises RuntimeError if the oracle cannot be built.
    """
    verdicts = oracle.ask(oracle_input(cases)).splitlines() if cases else []
    for case, line in zip(cases, verdicts, strict=True):
        for difference in differences(case, msgspec.json.decode(line)):
            yield f"{case.name}: {difference}"


def summary(cases: Sequence[WitnessedCase]) -> str:
    """Say how many decisions of which kind were judged."""
    preemptions = [case for case in cases if case.node]
    chance = sum(map(is_left_to_chance, preemptions))
    pending = sum(case.reason is not None for case in cases) - sum(case.reason is not None for case in preemptions)
    return f"{len(preemptions)} preemptions ({chance} left to chance), {pending} pods left pending"

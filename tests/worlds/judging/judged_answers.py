"""Worlds with `serve` in which pods compete, and what the reference says of each answer about preemption."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from tests.conformance import oracle
from tests.conformance.cases import Verdict
from tests.worlds.judging.answer_cases import AnsweredCase, answered_case, is_decided, wrong_answers
from tests.worlds.judging.answers import AnswerWitness
from tests.worlds.judging.cases import oracle_input
from tests.worlds.judging.judged_worlds import plain_world
from tests.worlds.judging.start_times import StartTimes
from tests.worlds.scenarios import Mode, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs


@dataclass(frozen=True)
class AnsweredWorld:
    """A world that has ended: its cases, how many calls they are of, how many could not be written down, and what did
    not hold in it."""

    cases: Sequence[AnsweredCase]
    calls: int
    skipped: int
    violations: Sequence[str]


def answered(seed: int, minutes: float, mode: Mode) -> AnsweredWorld:
    """Run a world of two replicas and `serve` with faults, and return what was answered."""
    cluster = ScheduledCluster(plain_world(seed, minutes, mode))
    witness = AnswerWitness(cluster.holds.observed)
    StartTimes(cluster.world, cluster.model)
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
        violations = [*cluster.problems(), *witness.unnamed, *witness.caches.wrong]
    cases = [answered_case(seed, number, answer) for number, answer in enumerate(witness.answers)]
    return AnsweredWorld(cases, witness.calls, witness.skipped, violations)


def verdicts_on(cases: Sequence[AnsweredCase]) -> list[Verdict]:
    """Ask the reference about all cases at once. Raises RuntimeError if the oracle cannot be built."""
    lines = oracle.ask(oracle_input(cases)).splitlines() if cases else []
    return [msgspec.json.decode(line) for line in lines]


def judged_answers(cases: Sequence[AnsweredCase], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what the reference says otherwise."""
    for case, verdict in zip(cases, verdicts, strict=True):
        for wrong in wrong_answers(case, verdict):
            yield f"{case.name}: {wrong}"


def summary_of_answers(cases: Sequence[AnsweredCase], verdicts: Sequence[Verdict]) -> str:
    """Say how many answers of which kind were judged, and about how many the reference cannot tell the victims."""
    counts = Counter(case.kept for case in cases)
    pairs = zip(cases, verdicts, strict=True)
    undecided = sum(case.kept != "as proposed" and not is_decided(verdict) for case, verdict in pairs)
    return (
        f"{counts['as proposed']} nodes with the victims that were proposed, {counts['as needed']} with those that the "
        f"service needs, {counts['not']} left out ({undecided} not decided)"
    )

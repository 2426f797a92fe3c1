"""Writes down, while a world runs, what its programs knew when they decided about a pod, and what they did then."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.status import Code
from extender_service.kube.types.core import Pod
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.question import Question
from tests.worlds.api_server.etcd import Item
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.judging.knowledge import Caches, Insides, Knowledge
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process

# A pod that fits nowhere preempts others for a node, or is left pending.
Outcome = Literal["placed", "preempts", "pending"]
MakeRoom = Callable[[Question, Decision], PostFilterResult]
Place = Callable[[Pod, str, Decision | None], Placement]

# So many decisions of one world at most: they hold on to old versions of objects. Most pods are placed: of these, each
# third is taken, so that not all are from the time when nodes are empty.
MOST_DECISIONS: Final[Mapping[Outcome, int]] = {"placed": 40, "preempts": 100, "pending": 100}
_PLACED_STEP: Final = 3


@dataclass(frozen=True)
class WitnessedDecision:
    """A decision of a program. `pod` is as it was known, then with the node that it was nominated for, or none.

    `node` is where it was placed, or what preemption nominated it for, with the `victims` (namespace/name). `line` is
    the number of the history's next line; a scheduler logs there, later, what it `reports` of a pod that is pending.
    """

    at: float
    who: str
    line: int
    pod: Item
    nominated_for: str
    known: Knowledge
    outcome: Outcome
    node: str
    victims: Sequence[str]
    reports: bool


@dataclass
class Witness:
    """Make it before the world runs. `decisions` are in order; `skipped` counts those whose state cannot be told.

    Decisions are those of the schedulers, or of `serve` where it decides and preempts. Without extenders, a scheduler
    places a pod in the turn in which it decides, and so does `serve`. After a restore of etcd, none are written down.
    """

    observed: Observed
    decisions: list[WitnessedDecision] = field(default_factory=list)
    skipped: int = 0
    _counts: Counter[Outcome] = field(default_factory=Counter)
    _placed: int = 0
    _watched: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.caches = Caches(self.observed)
        service = self.observed.service if self.observed.service_preempts else None
        self._programs = {each.name: each for each in (self.observed.replicas if service is None else [service])}
        self.observed.listen(self._find_programs)

    def _find_programs(self, served: Served) -> None:
        """Listen to each new process, which asks the API server before it decides anything."""
        program = self._programs.get(served.who)
        if program is None or (program.name, program.starts) in self._watched:
            return
        insides = self._insides(program)
        if insides is not None:
            self._watched.add((program.name, program.starts))
            self._listen(program.name, insides)

    def _insides(self, program: Process) -> Insides | None:
        return service_insides(program) if program is self.observed.service else scheduler_insides(program)

    def _listen(self, who: str, insides: Insides) -> None:
        engine = insides.engine
        post_filter: MakeRoom = engine.post_filter
        place: Place = engine.place

        def post_filter_and_note(question: Question, decision: Decision) -> PostFilterResult:
            result = post_filter(question, decision)
            outcome: Outcome = "preempts" if result.status.code == Code.SUCCESS else "pending"
            node_name = result.node_name if outcome == "preempts" else ""
            victims = ["/".join(insides.cluster.pods[slot].key) for slot in result.victims]
            self._note(who, insides, question, outcome, node_name, victims)
            return result

        def note_and_place(pod: Pod, node_name: str, decision: Decision | None = None) -> Placement:
            if decision is not None and not decision.question.chosen_elsewhere:
                self._note_placed(who, insides, decision.question, node_name)
            return place(pod, node_name, decision)

        engine.post_filter = post_filter_and_note  # type: ignore[method-assign]
        engine.place = note_and_place  # type: ignore[method-assign]

    def _note_placed(self, who: str, insides: Insides, question: Question, node_name: str) -> None:
        self._placed += 1
        if self._placed % _PLACED_STEP == 0:
            self._note(who, insides, question, "placed", node_name, ())

    def _note(
        self, who: str, insides: Insides, question: Question, outcome: Outcome, node_name: str, victims: Sequence[str]
    ) -> None:
        if self.caches.is_blind or self._counts[outcome] >= MOST_DECISIONS[outcome]:
            return
        pod, is_scheduler = question.pod, isinstance(insides, SchedulerInsides)
        nominated_for = pod.status.nominated_node_name
        if outcome == "placed" and not is_scheduler and not _is_about_nominated(question):
            nominated_for = ""  # the caller does not know of the nomination yet, and so asks about all nodes at once
        own, known = self.caches.version_of(pod), self.caches.read(who, insides)
        if own is None or known is None or not _is_about_all(question, insides.cluster):
            self.skipped += 1
            return
        self._counts[outcome] += 1
        self.decisions.append(
            WitnessedDecision(
                at=self.observed.now,
                who=who,
                line=len(self.observed.world.trace.lines),
                pod=own,
                nominated_for=nominated_for,
                known=known.without_nomination_of(own.key),
                outcome=outcome,
                node=node_name,
                victims=victims,
                reports=is_scheduler,
            )
        )


def _is_about_all(question: Question, cluster: Cluster) -> bool:
    """Return whether a question is about all nodes, or about the nominated one, which kube-scheduler asks about first.

    A scheduler that asks `serve` may not know of all nodes yet.
    """
    nodes = question.nodes
    is_about_each = nodes.by_name and np.count_nonzero(nodes.in_question) == cluster.node_count
    return bool(is_about_each) or _is_about_nominated(question)


def _is_about_nominated(question: Question) -> bool:
    """Return whether a question is about the pod's nominated node alone."""
    return list(question.nodes.names) == [question.pod.status.nominated_node_name]

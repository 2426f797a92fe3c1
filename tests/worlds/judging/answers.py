"""Writes down, while a world runs, what `serve` knew when it was asked about preemption, and what it answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.kube.types.extender_api import MetaVictims
from extender_service.scheduling.engine import DryRunOutcome
from extender_service.scheduling.question import Question
from tests.worlds.api_server.etcd import Item
from tests.worlds.invariants.insides import ServiceInsides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.pods.victims import key_of_deleted
from tests.worlds.judging.knowledge import Caches, Knowledge
from tests.worlds.simulation.http_face import Served

Kept = Literal["as proposed", "as needed", "not"]

# So many of one world at most: they hold on to old versions of objects.
MOST_ANSWERS: Final = 200


@dataclass(frozen=True)
class WitnessedAnswer:
    """What was answered about one proposed node. `pod` is as the service knew it.

    `known` has no proposed victims if these go in any case (`beside`). `kept` is whether the node was answered: with
    the victims that were proposed, since the pod fits there without more; with those that the service needs; or not.
    `victims` (namespace/name) are those that are to go besides what does not count any more.
    """

    at: float
    pod: Item
    known: Knowledge
    node: str
    kept: Kept
    victims: Sequence[str]


@dataclass
class AnswerWitness:
    """Make it before the world runs. `calls` counts those that `answers` are of, and `skipped` those about whose state
    the history says too little.

    `unnamed` are the pods that a replica deleted, though the service had not named them for any pod.
    """

    observed: Observed
    answers: list[WitnessedAnswer] = field(default_factory=list)
    calls: int = 0
    skipped: int = 0
    unnamed: list[str] = field(default_factory=list)
    _named: set[str] = field(default_factory=set)
    _watched: int = 0
    _dry_run: tuple[Question, RowChanges | None, DryRunOutcome] | None = None

    def __post_init__(self) -> None:
        self.caches = Caches(self.observed)
        self.observed.listen(self._see)

    def _see(self, served: Served) -> None:
        service = self.observed.service
        assert service is not None
        if service.name == served.who and service.starts != self._watched:
            insides = service_insides(service)
            if insides is not None:
                self._watched = service.starts
                self._listen(insides)
        key = key_of_deleted(served)
        if key and key not in self._named and served.who in {each.name for each in self.observed.replicas}:
            self.unnamed.append(f"{self.observed.now:.6f} {served.who} deleted {key}")

    def _listen(self, insides: ServiceInsides) -> None:
        engine, expectations = insides.engine, insides.extender.expectations
        dry_run: Callable[[Question, RowChanges | None], DryRunOutcome] = engine.dry_run
        note_victims = expectations.note_victims

        def dry_run_and_keep(question: Question, agreed: RowChanges | None = None) -> DryRunOutcome:
            outcome = dry_run(question, agreed)
            self._dry_run = (question, agreed, outcome)
            return outcome

        def note(preemptor: str, victims: Mapping[str, MetaVictims]) -> None:
            note_victims(preemptor, victims)
            assert self._dry_run is not None
            self._note(insides, *self._dry_run, _keys(insides.cluster, victims))

        engine.dry_run = dry_run_and_keep  # type: ignore[method-assign]
        expectations.note_victims = note  # type: ignore[method-assign]

    def _note(
        self,
        insides: ServiceInsides,
        question: Question,
        agreed: RowChanges | None,
        outcome: DryRunOutcome,
        victims: Mapping[str, Sequence[str]],
    ) -> None:
        self._named.update(key for keys in victims.values() for key in keys)
        if self.caches.is_blind or len(self.answers) >= MOST_ANSWERS:
            return
        assert self.observed.service is not None
        own = self.caches.version_of(question.pod)
        known = self.caches.read(self.observed.service.name, insides)
        if own is None or known is None:
            self.skipped += 1
            return
        self.calls += 1
        known = known.without_nomination_of(own.key)
        for name, position in zip(question.nodes.names, question.nodes.positions.tolist(), strict=True):
            gone = set() if agreed is None else _taken(insides.cluster, agreed, position)
            self.answers.append(
                WitnessedAnswer(
                    at=self.observed.now,
                    pod=own,
                    known=replace(known, counted=[each for each in known.counted if each[0].key not in gone]),
                    node=name,
                    kept="not" if name not in victims else "as proposed" if outcome.passing[position] else "as needed",
                    victims=[key for key in victims.get(name, ()) if key not in gone],
                )
            )


def _keys(cluster: Cluster, victims: Mapping[str, MetaVictims]) -> dict[str, list[str]]:
    """Return the victims by node as namespace/name."""
    slots = {name: [cluster.slot_on(pod.uid, name) for pod in named.pods] for name, named in victims.items()}
    return {
        name: ["/".join(cluster.pods[slot].key) for slot in on_node if slot is not None]
        for name, on_node in slots.items()
    }


def _taken(cluster: Cluster, agreed: RowChanges, position: int) -> set[str]:
    """Return the pods that are gone from the node at a position in any case."""
    slots = agreed.slots[agreed.positions == position].tolist()
    return {"/".join(cluster.pods[slot].key) for slot in slots}

"""Writes down, while a world runs, what its schedulers knew when a pod fitted nowhere, and what they did then."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.status import Code
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.keys import key_of
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.question import Question
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import BY_PATH, NODES, PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides, scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served

Object = dict[str, Any]
Insides = SchedulerInsides | ServiceInsides
MakeRoom = Callable[[Question, Decision], PostFilterResult]

# So many decisions of one world at most: they hold on to old versions of objects.
MOST_DECISIONS: Final = 200


@dataclass(frozen=True)
class WitnessedDecision:
    """A pod that fitted nowhere: `pod` as it was known, and `objects`, which are all others by kind.

    `counted` are the pods that counted on nodes, with the node; `nominated` those nominated for one, with it. `node`
    and `victims` (namespace/name) are what preemption chose, if it did. `line` is the number of the history's next
    line.
    """

    at: float
    who: str
    line: int
    pod: Item
    objects: Sequence[tuple[Kind, Item]]
    counted: Sequence[tuple[Item, str]]
    nominated: Sequence[tuple[Item, str]]
    node: str
    victims: Sequence[str]


class Restored:
    """Whether etcd was restored since this was made: then versions say nothing any more."""

    def __init__(self, observed: Observed) -> None:
        self.is_restored = False
        observed.model.etcd.on_restore.append(self._note)

    def _note(self) -> None:
        self.is_restored = True


@dataclass
class Witness:
    """Make it before the world runs. `decisions` are in order; `skipped` counts those whose state cannot be told.

    That is so while a scheduler lists again, after its history was compacted, and after etcd was restored.
    """

    observed: Observed
    decisions: list[WitnessedDecision] = field(default_factory=list)
    skipped: int = 0
    _watched: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._restored = Restored(self.observed)
        self.observed.listen(self._find_programs)

    def _find_programs(self, served: Served) -> None:
        """Listen to each new process, which asks the API server before it decides anything."""
        for replica in self.observed.replicas:
            process = (replica.name, replica.starts)
            if replica.name == served.who and process not in self._watched:
                insides = scheduler_insides(replica)
                if insides is not None:
                    self._watched.add(process)
                    self._listen(replica.name, insides)

    def _listen(self, who: str, insides: SchedulerInsides) -> None:
        post_filter = insides.engine.post_filter

        def post_filter_and_note(question: Question, decision: Decision) -> PostFilterResult:
            result = post_filter(question, decision)
            if len(self.decisions) < MOST_DECISIONS and not self._restored.is_restored:
                self._note(who, insides, question.pod, result)
            return result

        insides.engine.post_filter = post_filter_and_note  # type: ignore[method-assign]

    def _note(self, who: str, insides: SchedulerInsides, pod: Pod, result: PostFilterResult) -> None:
        etcd, cluster = self.observed.model.etcd, insides.cluster
        own = etcd.item_at(PODS, pod_name(pod), int(pod.metadata.resource_version))
        objects = objects_as_known(etcd, insides)
        known = placed(etcd, insides, insides.queue.nominator.on_nodes())
        if own is None or str(own.revision) != pod.metadata.resource_version or objects is None or known is None:
            self.skipped += 1
            return
        counted, nominated = known
        is_success = result.status.code == Code.SUCCESS
        self.decisions.append(
            WitnessedDecision(
                at=self.observed.now,
                who=who,
                line=len(self.observed.world.trace.lines),
                pod=own,
                objects=objects,
                counted=counted,
                nominated=[each for each in nominated if each[0].key != own.key],
                node=result.node_name if is_success else "",
                victims=["/".join(cluster.pods[slot].key) for slot in result.victims],
            )
        )


def objects_as_known(etcd: Etcd, insides: Insides) -> list[tuple[Kind, Item]] | None:
    """Return all objects except pods in the versions that a program knows; None if the history has others."""
    found = [
        (kind, item) for kind, version in _versions(insides) if kind is not PODS for item in etcd.at(kind, version)
    ]
    versions = {(kind.name, item.key, str(item.revision)) for kind, item in found}
    return found if versions == {*_known(insides.cluster)} else None


def _versions(insides: Insides) -> Iterator[tuple[Kind, int]]:
    """Yield each kind that a program watches, and up to which version it has shown."""
    for name, reflector in insides.api_server._reflectors.items():
        resource = reflector.resource
        version = insides.api_server.states[name].last_resource_version
        yield BY_PATH[resource.group, resource.version, resource.plural], int(version or 0)


def _known(cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, key and version of each object except pods that a program knows."""
    for node in cluster.nodes.objects:
        if node is not None:
            yield NODES.name, node.metadata.name, node.metadata.resource_version
    for item in chain(cluster.workloads, cluster.storage):
        yield type(item).__name__, "/".join(filter(None, key_of(item))), item.metadata.resource_version


def placed(
    etcd: Etcd, insides: Insides, nominations: Iterable[tuple[str, str]]
) -> tuple[list[tuple[Item, str]], list[tuple[Item, str]]] | None:
    """Return the pods that count on nodes for a program, and those nominated; None if the history lacks one.

    `nominations` are those that the program knows, by UID with the node.
    """
    cluster = insides.cluster
    version = next(version for kind, version in _versions(insides) if kind is PODS)
    by_uid = {item.value["metadata"]["uid"]: item for item in etcd.at(PODS, version)}
    names, rows = cluster.nodes.names, cluster.pods.row.tolist()
    counted = {
        facts.uid: names[rows[slot]]
        for slot, facts in enumerate(cluster.pods.facts)
        if facts is not None and rows[slot] != NO_ROW
    }
    nominated = {uid: node for uid, node in nominations if uid not in counted}
    if not counted.keys() | nominated.keys() <= by_uid.keys():
        return None
    on_nodes = {
        uid for uid, item in by_uid.items() if item.value["spec"].get("nodeName") and not is_finished(item.value)
    }
    if not on_nodes <= counted.keys():
        return None
    return (
        [(by_uid[uid], node) for uid, node in counted.items()],
        [(by_uid[uid], node) for uid, node in nominated.items()],
    )

"""What a program knows of the cluster, found in the store's history by the versions that its watches have shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import Assumable, Storage
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.storage import SELECTED_NODE_ANNOTATION, PersistentVolume, PersistentVolumeClaim
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.kinds import BY_PATH, CLAIMS, NODES, PODS, VOLUMES, Kind
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides
from tests.worlds.invariants.observed import Observed

Insides = SchedulerInsides | ServiceInsides

# More caches that are wrong are not named: one of them shows what happened.
_MOST_WRONG: Final = 10
_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class Knowledge:
    """`objects` are all except pods, by kind: volumes and claims as they are assumed to be. `counted` are the pods that
    count on nodes, with the node: one that was placed as it was then. `nominated` are those that are nominated for one,
    with it."""

    objects: Sequence[tuple[Kind, Item]]
    counted: Sequence[tuple[Item, str]]
    nominated: Sequence[tuple[Item, str]]

    def without_nomination_of(self, key: str) -> "Knowledge":
        """Return the same without the nomination of a pod (namespace/name), which does not count for itself."""
        return replace(self, nominated=[each for each in self.nominated if each[0].key != key])


class _Watched(NamedTuple):
    """A kind that a program watches: up to which version it has shown, and whether the kind is to be listed again."""

    kind: Kind
    version: int
    is_listing: bool


class Caches:
    """Reads the caches of programs. `wrong` has a line for each that is not what its watches have shown.

    While a kind is being listed, and where the history does not reach back to its version, nothing says what was shown.
    `is_blind` once etcd was restored: then versions say nothing any more.
    """

    def __init__(self, observed: Observed) -> None:
        self.wrong: list[str] = []
        self.is_blind = False
        self._observed = observed
        observed.model.etcd.on_restore.append(self._note_restore)

    def _note_restore(self) -> None:
        self.is_blind = True

    def read(self, who: str, insides: Insides) -> Knowledge | None:
        """Return what a program knows; None where the history does not say which objects these are."""
        known, is_as_shown = _known(insides.cluster), True
        objects: list[tuple[Kind, Item]] = []
        pods: Mapping[str, Item] = {}
        for watched in _watched(insides):
            items = self._observed.model.etcd.at(watched.kind, watched.version)
            if not self._is_as_shown(who, watched, _shown(watched.kind, items), known[watched.kind.name]):
                is_as_shown = False
            if watched.kind is PODS:
                pods = {_uid(item): item for item in items}
            else:
                objects += ((watched.kind, as_assumed(insides.cluster.storage, watched.kind, item)) for item in items)
        counted = dict(_counted(insides.cluster))
        nominated = {uid: node for uid, node in _nominated(insides) if uid not in counted}
        # A placed pod counts as it was placed. The watch may show it with other labels by now, or not yet to `serve`.
        placed = {placement.uid: self.version_of(placement.pod) for placement in insides.cluster.placements}
        versions: dict[str, Item | None] = {**pods, **placed}
        found = {uid: item for uid, item in versions.items() if item is not None}
        if not is_as_shown or not counted.keys() | nominated.keys() <= found.keys():
            return None
        return Knowledge(
            objects,
            counted=[(found[uid], node) for uid, node in counted.items()],
            nominated=[(found[uid], node) for uid, node in nominated.items()],
        )

    def version_of(self, pod: Pod) -> Item | None:
        """Return a pod as it was stored in the version that a program has; None if the history has another one."""
        version = pod.metadata.resource_version
        item = self._observed.model.etcd.item_at(PODS, pod_name(pod), int(version))
        return item if item is not None and str(item.revision) == version else None

    def _is_as_shown(self, who: str, watched: _Watched, shown: Mapping[str, str], known: Mapping[str, str]) -> bool:
        is_told = not watched.is_listing and watched.version >= self._observed.model.etcd.compacted
        if shown == known:
            # A pod may have changed all the same: a cache does not say which versions of pods it has.
            return is_told or watched.kind is not PODS
        if is_told:
            self._note_wrong(who, watched, shown, known)
        return False

    def _note_wrong(self, who: str, watched: _Watched, shown: Mapping[str, str], known: Mapping[str, str]) -> None:
        if len(self.wrong) < _MOST_WRONG:
            text = f"the cache of {who} is not what its watch of {watched.kind.plural} has shown at {watched.version}"
            sides = {"lacks": shown.items() - known.items(), "has": known.items() - shown.items()}
            differences = " and ".join(f"{verb} {_named(entries)}" for verb, entries in sides.items() if entries)
            self.wrong.append(f"{self._observed.now:.6f} {text}: it {differences}")


def as_assumed(storage: Storage, kind: Kind, item: Item) -> Item:
    """Return a volume or a claim as it is assumed to be, by a key of its own; any other object, and what nothing is
    assumed of, as it is."""
    namespace, _, name = item.key.rpartition("/")
    if kind is VOLUMES and (volume := storage.find(PersistentVolume, (namespace, name))) is not None:
        return _changed(item, volume, storage.latest(volume))
    if kind is CLAIMS and (claim := storage.find(PersistentVolumeClaim, (namespace, name))) is not None:
        return _changed(item, claim, storage.latest(claim))
    return item


def _changed(item: Item, known: Assumable, assumed: Assumable) -> Item:
    """Return an object as the scheduler is about to write it (volume_binder.py says what it writes)."""
    if assumed is known:
        return item
    value, annotations = item.copy(), assumed.metadata.annotations
    value["metadata"]["annotations"] = {**value["metadata"].get("annotations", {}), **annotations}
    if isinstance(assumed, PersistentVolume):
        claim = assumed.spec.claim_ref
        assert claim is not None, "a volume is assumed to be bound"
        value["spec"]["claimRef"] = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.name,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        return Item(f"{item.key} assumed for {claim.uid}", value, item.revision)
    return Item(f"{item.key} assumed for {annotations[SELECTED_NODE_ANNOTATION]}", value, item.revision)


def _watched(insides: Insides) -> Iterator[_Watched]:
    for name, reflector in insides.api_server._reflectors.items():
        resource = reflector.resource
        version = insides.api_server.states[name].last_resource_version
        kind = BY_PATH[resource.group, resource.version, resource.plural]
        yield _Watched(kind, int(version or 0), reflector._must_list)


def _shown(kind: Kind, items: Iterable[Item]) -> dict[str, str]:
    """Return what a watch has shown: of pods that have not ended, the node by UID; of others, the version by key."""
    if kind is PODS:
        return {_uid(item): item.value["spec"].get("nodeName", "") for item in items if not is_finished(item.value)}
    return {item.key: str(item.revision) for item in items}


def _known(cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
    """Return the same of what a program knows, by the name of the kind. Placements are ahead of the watch."""
    ahead = {placement.slot for placement in cluster.placements}
    known: dict[str, dict[str, str]] = {kind.name: {} for kind in BY_PATH.values()}
    known[PODS.name] = {
        facts.uid: facts.node_name
        for slot, facts in enumerate(cluster.pods.facts)
        if facts is not None and slot not in ahead
    }
    known[NODES.name] = {
        node.metadata.name: node.metadata.resource_version for node in cluster.nodes.objects if node is not None
    }
    for item in chain(cluster.workloads, cluster.storage):
        known[type(item).__name__]["/".join(filter(None, key_of(item)))] = item.metadata.resource_version
    return known


def _counted(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the UID and the node of each pod that counts on one, known or not."""
    names, rows = cluster.nodes.names, cluster.pods.row.tolist()
    for slot, facts in enumerate(cluster.pods.facts):
        if facts is not None and rows[slot] != NO_ROW:
            yield facts.uid, names[rows[slot]]


def _nominated(insides: Insides) -> Iterator[tuple[str, str]]:
    """Yield the UID and the node of each pod that is nominated for one."""
    if isinstance(insides, SchedulerInsides):
        yield from insides.queue.nominator.on_nodes()
    else:
        for uid, nomination in insides.cluster.nominations._by_uid.items():
            yield uid, nomination.node_name


def _uid(item: Item) -> str:
    return str(item.value["metadata"]["uid"])


def _named(entries: Iterable[tuple[str, str]]) -> str:
    """Return the first objects as text, each with its version, or its node if it is a pod."""
    found = sorted(entries)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(" at ".join(filter(None, entry)) for entry in found[:_MOST_NAMED]) + more

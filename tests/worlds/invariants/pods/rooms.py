"""What holds of what pods take: room on nodes, ports of hosts, and volumes.

The API server may show a node over its allocatable, although the scheduler made no mistake: a scheduler decides on
what its watch has brought, and nothing holds others back meanwhile. One thing makes that unavoidable: what came after
the versions of nodes and pods that the scheduler knew when it reserved the node. So there are two kinds of rules here.
Those about a scheduler's own knowledge at Reserve have no exception. What the API server says is checked against that
knowledge.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from extender_service.extender.wire.requested_nodes import WholeNodes
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from tests.worlds.actors.fitting import (
    amounts_of,
    is_finished,
    ports_collide,
    requests_of,
    selects,
    shortage,
    tolerates,
)
from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import CLAIMS, NODES, PODS, VOLUMES, Kind
from tests.worlds.api_server.messages import Response
from tests.worlds.invariants.insides import decision_being_placed, scheduler_insides, service_insides
from tests.worlds.invariants.ledger import Ledger, LedgerEntry, listen_to_ledgers
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process

Object = dict[str, Any]
_BINDING = "/binding"
_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class _OnNode(NamedTuple):
    """A pod that is on a node in the API server's store, and since which version."""

    item: Item
    since: int


class _Reserved(NamedTuple):
    """When a scheduler reserved a node for a pod, by its key, and what it knew then: the pod as it was asked about,
    versions, and which pods had room there: those that counted, and those for which it had reserved the node itself.

    Where `serve` was sent the node whole, `nodes_version` is that of the node as it was sent.
    """

    at: float
    key: str
    asked: Object
    node_name: str
    known: frozenset[str]
    pods_version: int
    nodes_version: int


class PodsOnNodes:
    """The pods on each node, as the API server has them, and the version at which others ended or were deleted.

    `highest_version` is that of the latest change of any object, before the last restore if none came since.
    """

    def __init__(self, observed: Observed) -> None:
        self._etcd = observed.model.etcd
        self.by_node: dict[str, dict[str, _OnNode]] = {}
        self.left: dict[str, int] = {}
        self.highest_version = 0
        self._etcd.listeners.append(self._see)
        self._etcd.on_restore.append(self._see_all)

    def _see(self, kind: Kind, change: Change) -> None:
        self.highest_version = change.revision
        if kind is PODS:
            before, after = change.before, change.after
            if before is not None and (node := _node_of(before)) and (after is None or _node_of(after) != node):
                uid = before.value["metadata"]["uid"]
                self.by_node[node].pop(uid, None)
                self.left[uid] = change.revision
            elif after is None:
                self.left[change.item.value["metadata"]["uid"]] = change.revision
            if after is not None and (node := _node_of(after)):
                uid, pods = after.value["metadata"]["uid"], self.by_node.setdefault(node, {})
                known = pods.get(uid)
                pods[uid] = _OnNode(after, change.revision if known is None else known.since)

    def _see_all(self) -> None:
        self.by_node.clear()
        self.left.clear()  # some are there again
        for item in self._etcd.all(PODS):
            if node := _node_of(item):
                self.by_node.setdefault(node, {})[item.value["metadata"]["uid"]] = _OnNode(item, item.revision)

    def on(self, node_name: str) -> Mapping[str, _OnNode]:
        """Return the pods on a node that have not ended, by UID."""
        return self.by_node.get(node_name, {})


class RoomKept:
    """At Reserve, without exception: on the node that is taken, each pod counts that the scheduler's watch has shown
    there, or that it has itself bound or reserved there; no other pod counts; and beside all of them the node has room
    for the pod: by its allocatable, its ports, and the claims with ReadWriteOncePod. A node has nothing of a resource
    that it does not name. The pod requests what it did in the version that the program was asked about: that of the
    scheduler's watch, which may not have shown yet that a restore of etcd has taken back a resize. Where `serve`
    decides in place of the scheduler's plugins, ports and claims are for `serve` alone to look at, whose watch may be
    ahead. Where a scheduler asks no extender about a pod, it reserves in the turn in which it decides: then the pod
    selects the node, tolerates its taints, and that it is cordoned, as its watch has shown both. While it takes in a
    list, nothing says which of the two versions it has seen. A node that `serve` was sent whole has what the caller has
    sent, whose watch may be ahead or behind. Of one that was not, and that the watch of `serve` does not show, nothing
    is looked at but which pods count there.

    In the API server: a binding goes to the node that was reserved. It puts the node over its allocatable, or gives a
    port of it twice, only if something came after the version that the scheduler knew then: another pod for which it
    had not reserved the node itself, or a change of the node's allocatable, or of what the pod or one on the node
    requests. So a kubelet's own pods, a second scheduler, a leader before, and a watch that lags excuse it, and a
    forgotten pod does not. Nor does a change of anything else, such as a label.

    After etcd was restored from a backup, a scheduler is looked at again once it has listed nodes and pods: once it
    knows a version from after the restore. Where the restore did not raise the version, nothing says when that is, so
    it is not looked at any more.
    """

    name = "room kept"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._pods = PodsOnNodes(observed)
        # None while the scheduler was not looked at.
        self._reserved: dict[tuple[str, str], _Reserved | None] = {}
        self._own: dict[Ledger, dict[str, str]] = {}
        self._replicas = {replica.name for replica in observed.replicas}
        self._from_version = 0.0
        self._etcd.on_restore.append(self._look_later)
        listen_to_ledgers(observed.world.network, self._note)
        observed.listen(self._see_binding)

    def _look_later(self) -> None:
        version = self._etcd.revision
        self._from_version = version if version > self._pods.highest_version else math.inf
        self._reserved = dict.fromkeys(self._reserved)

    def _note(self, entry: LedgerEntry) -> None:
        own = self._own.setdefault(entry.ledger, {})
        uid = pod_uid(entry.pod)
        if entry.point == "unreserve":
            if own.get(uid) == entry.node_name:
                del own[uid]
            return
        if entry.point == "post_bind":
            return
        node_name, ledger = entry.node_name, entry.ledger
        versions = self._known_versions(ledger)
        if min(versions) < self._from_version:
            self._reserved[ledger.who, uid] = None
            own[uid] = node_name
            return
        counted = {other: key for other, key in _counted(ledger, node_name) if other != uid}
        known = frozenset((*counted, *dict(self._reserved_on(ledger, node_name))))
        asked, sent = msgspec.to_builtins(entry.pod), _sent_whole(node_name)
        if sent is not None:
            versions = versions[0], int(sent["metadata"]["resourceVersion"])
        reserved = _Reserved(self._observed.now, pod_name(entry.pod), asked, node_name, known, *versions)
        self._reserved[ledger.who, uid] = reserved
        problems = self._problems(entry, own, counted, versions[0], sent)
        for problem in chain(problems, self._unsuitable(entry, *versions)):
            self._observed.violated(self, f"{ledger.who} reserves {node_name} for {pod_name(entry.pod)}: {problem}")
        own[uid] = node_name

    def _process(self, ledger: Ledger) -> Process:
        return next(each for each in self._observed.programs if each.name == ledger.who)

    def _known_versions(self, ledger: Ledger) -> tuple[int, int]:
        """Return the versions of pods and of nodes that the watches of a ledger's process have shown."""
        process = self._process(ledger)
        is_service = process is self._observed.service
        insides = service_insides(process) if is_service else scheduler_insides(process)
        assert insides is not None, "it runs, and has come so far"
        states = insides.api_server.states
        pods, nodes = (int(states[plural].last_resource_version or 0) for plural in ("pods", "nodes"))
        return pods, nodes

    def _reserved_on(self, ledger: Ledger, node_name: str) -> Iterator[tuple[str, str]]:
        """Yield the UID and the key of each pod for which a process has reserved a node since etcd was last restored,
        and not given it back, unless the pod has left it."""
        for uid, own_node in self._own[ledger].items():
            reserved = self._reserved.get((ledger.who, uid))
            if own_node == node_name and reserved is not None and uid not in self._pods.left:
                yield uid, reserved.key

    def _problems(
        self,
        entry: LedgerEntry,
        own: Mapping[str, str],
        counted: Mapping[str, str],
        version: int,
        sent: Object | None = None,
    ) -> Iterator[str]:
        node_name = entry.node_name
        present = self._pods.on(node_name)
        for uid, pod in present.items():
            # A pod of its own that has left, and came again, it knows only from its watch.
            is_own = own.get(uid) == node_name and uid not in self._pods.left
            if uid not in counted and (pod.since <= version or is_own):
                yield f"{pod.item.key} does not count, which is there since version {pod.since} of {version}"
        for uid, key in self._reserved_on(entry.ledger, node_name):
            if uid not in counted and uid != pod_uid(entry.pod) and self._waits(uid, key):
                yield f"{key} does not count, for which this scheduler has reserved the node"
        for uid, key in counted.items():
            if not self._is_there(uid, present.get(uid), own.get(uid) == node_name, version):
                yield f"{key} counts, which is not there"
        if self._looks_at_nothing(entry.ledger.who):
            return
        item = self._etcd.get(PODS, pod_name(entry.pod))
        allocatable = _shown_allocatable(entry.ledger, node_name) if sent is None else _allocatable(sent)
        if item is None or _uid(item) != pod_uid(entry.pod) or allocatable is None:
            return  # deleted meanwhile, and perhaps made again under its name
        asked = msgspec.to_builtins(entry.pod)
        others = [*self._as_known(counted, version)]
        looks_at_all = self._looks_at_all(entry.ledger.who)
        yield from _conflicts(asked, others, allocatable, looks_at_all)
        if looks_at_all:
            yield from self._shared_claims(item.value, entry.ledger, version)

    def _unsuitable(self, entry: LedgerEntry, pods_version: int, nodes_version: int) -> Iterator[str]:
        """Yield why a pod must not be on its node, by what the scheduler knew, if that alone has decided."""
        if not self._decides_alone(entry.ledger, entry.pod) or _is_listing(entry, pods_version, nodes_version):
            return
        pod, node = self._at(PODS, pod_name(entry.pod), pods_version), self._at(NODES, entry.node_name, nodes_version)
        if pod is None or _uid(pod) != pod_uid(entry.pod) or node is None:
            return
        if not selects(pod.value, node.value):
            yield "it does not select the node"
        if not tolerates(pod.value, node.value["spec"].get("taints", ()), _KEEPS_OUT):
            yield "it does not tolerate a taint of the node"
        if node.value["spec"].get("unschedulable") and not tolerates(pod.value, [_CORDONED], _KEEPS_OUT):
            yield "it does not tolerate that the node is cordoned"

    def _decides_alone(self, ledger: Ledger, pod: Pod) -> bool:
        """Return whether a scheduler has all its plugins, and asks no extender about a pod."""
        if ledger.who not in self._replicas or not self._looks_at_all(ledger.who):
            return False
        insides = scheduler_insides(self._process(ledger))
        return insides is not None and not insides.scheduler._attempts.asks_extenders(pod)

    def _at(self, kind: Kind, key: str, version: int) -> Item | None:
        """Return an object as it was at a version; None, too, if that is compacted."""
        return self._etcd.item_at(kind, key, version) if version >= self._etcd.compacted else None

    def _waits(self, uid: str, key: str) -> bool:
        """Return whether the API server has a pod on no node."""
        item = self._etcd.get(PODS, key)
        if item is None or _uid(item) != uid:
            return False
        return not item.value["spec"].get("nodeName") and not is_finished(item.value)

    def _looks_at_all(self, who: str) -> bool:
        return not self._observed.service_decides or who not in self._replicas

    def _looks_at_nothing(self, who: str) -> bool:
        return self._observed.service_preempts and who in self._replicas

    def _is_there(self, uid: str, pod: _OnNode | None, is_own: bool, version: int) -> bool:
        """Return whether a pod is on its node at a version, or came there since without having left before."""
        left_version = self._pods.left.get(uid)
        if left_version is None:
            return pod is not None or is_own
        # A kubelet's status that arrives late can have a pod run again that had failed.
        return left_version > version or (pod is not None and pod.since <= version)

    def _as_known(self, keys: Mapping[str, str], version: int) -> Iterator[Object]:
        """Yield pods, by UID and key, as they were at a version, or as they are now if they came later.

        A pod that went, and was made again under its name, is left out: nothing says any more what it requested.
        """
        for uid, key in keys.items():
            then = self._at(PODS, key, version)
            found = [each for each in (then, self._etcd.get(PODS, key)) if each is not None and _uid(each) == uid]
            if found and not is_finished(found[0].value):
                yield found[0].value

    def _shared_claims(self, pod: Object, ledger: Ledger, version: int) -> Iterator[str]:
        wanted = [key for key in _claims(pod) if self._is_for_one_pod(key)]
        if not wanted:
            return
        own, nodes = self._own[ledger], ledger.handle.cluster.nodes
        for node_name, pods in self._pods.by_node.items():
            if not nodes.is_node(node_name):
                continue  # kube-scheduler counts no claims there, either
            for uid, other in pods.items():
                is_own = own.get(uid) == node_name and uid not in self._pods.left
                is_known = other.since <= version or is_own
                if is_known and uid != pod["metadata"]["uid"]:
                    for key in set(wanted) & set(_claims(other.item.value)):
                        yield f"the claim {key} is for one pod, and {other.item.key} on {node_name} has it"

    def _is_for_one_pod(self, key: str) -> bool:
        claim = self._etcd.get(CLAIMS, key)
        return claim is not None and "ReadWriteOncePod" in claim.value["spec"].get("accessModes", ())

    def _see_binding(self, served: Served) -> None:
        path = served.request.path
        is_done = isinstance(served.answer, Response) and served.answer.status == 201
        if not path.endswith(_BINDING) or not is_done:
            return
        namespace, name = path.split("/")[4], path.split("/")[6]
        item = self._etcd.get(PODS, f"{namespace}/{name}")
        if item is None:
            return
        uid, node_name = item.value["metadata"]["uid"], item.value["spec"].get("nodeName", "")
        if not node_name or msgspec.json.decode(served.request.body)["metadata"].get("uid", uid) != uid:
            return  # the answer comes late: the pod was made again under its name
        if (served.who, uid) not in self._reserved:
            if any(who == served.who for who, _ in self._reserved):
                self._observed.violated(self, f"{served.who} binds {item.key} without a reservation")
            return
        reserved = self._reserved[served.who, uid]
        if reserved is None or served.written_at < reserved.at:
            return  # in the second case, the scheduler had given this binding up, and taken it for lost
        if reserved.node_name != node_name:
            text = f"{served.who} binds {item.key} to {node_name}, and reserved {reserved.node_name}"
            self._observed.violated(self, text)
        else:
            self._check_node(served.who, item, reserved)

    def _check_node(self, who: str, item: Item, reserved: _Reserved) -> None:
        """Look whether the API server shows a node over what it has, and whether what the scheduler knew excuses it."""
        node = self._etcd.get(NODES, reserved.node_name)
        if node is None or self._looks_at_nothing(who) or not self._offers_as_known(node, reserved.nodes_version):
            return
        uid = item.value["metadata"]["uid"]
        others = {other: pod.item for other, pod in self._pods.on(reserved.node_name).items() if other != uid}
        if not others.keys() <= reserved.known:
            return
        allocatable = _allocatable(node.value)
        then = [*self._as_known({other: each.key for other, each in others.items()}, reserved.pods_version)]
        now, looks_at_all = [each.value for each in others.values()], self._looks_at_all(who)
        if any(_conflicts(reserved.asked, then, allocatable, looks_at_all)):
            for problem in _conflicts(item.value, now, allocatable, looks_at_all):
                self._observed.violated(self, f"{who} binds {item.key} to {reserved.node_name}: {problem}")

    def _offers_as_known(self, node: Item, version: int) -> bool:
        """Return whether a node has what it had at a version."""
        then = self._at(NODES, node.key, version)
        return then is not None and _allocatable(then.value) == _allocatable(node.value)

    def at_end(self) -> None:
        """All was checked as it came."""


def _is_listing(entry: LedgerEntry, pods_version: int, nodes_version: int) -> bool:
    """Return whether a pod or its node is from a list that the scheduler is taking in, whose version it notes last."""
    node = entry.ledger.handle.cluster.nodes.node(entry.node_name)
    shown = ((entry.pod, pods_version), *(() if node is None else ((node, nodes_version),)))
    return any(int(each.metadata.resource_version or 0) > version for each, version in shown)


class VolumesGivenOnce:
    """A volume is for one claim: its claimRef never goes from one claim to another without being cleared, and no two
    claims name the same volume.
    """

    name = "volumes given once"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._claim_of: dict[str, str] = {}
        observed.model.etcd.listeners.append(self._see)
        observed.model.etcd.on_restore.append(self._claim_of.clear)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is VOLUMES and change.before is not None and change.after is not None:
            before, after = _claim_ref(change.before), _claim_ref(change.after)
            if before and after and before != after:
                self._observed.violated(self, f"volume {change.item.key} was for {before}, and is for {after} now")
        elif kind is CLAIMS:
            volume = change.item.value["spec"].get("volumeName", "")
            if change.after is None:
                if self._claim_of.get(volume) == change.item.key:
                    del self._claim_of[volume]
            elif volume and (holder := self._claim_of.setdefault(volume, change.item.key)) != change.item.key:
                self._observed.violated(self, f"claim {change.item.key} has volume {volume}, and so has {holder}")

    def at_end(self) -> None:
        """All was checked as it came."""


def _uid(item: Item) -> str:
    return str(item.value["metadata"]["uid"])


def _node_of(item: Item) -> str:
    """Return the node on which a pod counts; empty if it is on none, or has ended."""
    return "" if is_finished(item.value) else item.value["spec"].get("nodeName", "")


def _allocatable(node: Object) -> Mapping[str, int]:
    return amounts_of(node["status"].get("allocatable", {}))


def _shown_allocatable(ledger: Ledger, node_name: str) -> Mapping[str, int] | None:
    """Return what a node has as the watch of a program has shown it; None if that has not shown it."""
    node = ledger.handle.cluster.nodes.node(node_name)
    return None if node is None else amounts_of({name: str(amount) for name, amount in node.status.allocatable.items()})


def _sent_whole(node_name: str) -> Object | None:
    """Return the node that is being reserved as the caller of `serve` has sent it; None if it has sent names."""
    decision = decision_being_placed()
    nodes = None if decision is None else decision.question.nodes
    if not isinstance(nodes, WholeNodes):
        return None
    sent: Object = msgspec.json.decode(nodes.items[nodes.names.index(node_name)])
    return sent


def _counted(ledger: Ledger, node_name: str) -> Iterator[tuple[str, str]]:
    """Yield the UID and the key of each pod that counts on a node for a scheduler."""
    cluster = ledger.handle.cluster
    if (row := cluster.nodes.row_of.get(node_name)) is None:
        return  # `serve` was sent a node that its watch has not shown
    for slot in cluster.pods.on_row(row):
        facts = cluster.pods[slot]
        yield facts.uid, f"{facts.namespace}/{facts.name}"


def _conflicts(
    pod: Object, others: list[Object], allocatable: Mapping[str, int], looks_at_ports: bool = True
) -> Iterator[str]:
    if short := shortage(pod, others, {**dict.fromkeys(requests_of(pod), 0), **allocatable}):
        yield f"too little {short} is left beside {len(others)} pods"
    if looks_at_ports and ports_collide(pod, others):
        yield "a port of the host is taken"


def _claims(pod: Object) -> list[str]:
    namespace = pod["metadata"]["namespace"]
    volumes = pod["spec"].get("volumes", ())
    return [
        f"{namespace}/{each['persistentVolumeClaim']['claimName']}"
        for each in volumes
        if "persistentVolumeClaim" in each
    ]


def _claim_ref(item: Item) -> str:
    reference = item.value["spec"].get("claimRef") or {}
    return f"{reference['namespace']}/{reference['name']} {reference.get('uid', '')}".strip() if reference else ""

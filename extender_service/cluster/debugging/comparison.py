"""What the cluster knows, compared with what the API server says.

As kube-scheduler's cache debugger (pkg/scheduler/internal/cache/debugger), which also looks whether nodes and pods are
known, but not at what they add up to, nor at any other kind.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
import numpy as np

from extender_service.cluster.pods.pod_table import PodFacts, PodTable
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.parsing.pod_affinity import PodAffinityTerms
from extender_service.kube.types.keys import key_of

# More of one kind than this are counted, not named.
_MOST_NAMED = 50

# Facts of nodes by node name and name of the fact; a missing one is zero, false or unset.
_Facts = dict[tuple[str, str], int | str]


class NodeDifference(msgspec.Struct, frozen=True):
    """One fact of a node that is not as listed; None where it is zero, false or unset."""

    node_name: str
    fact: str
    cached: int | str | None
    listed: int | str | None

    def __str__(self) -> str:
        cached, listed = ("nothing" if value is None else value for value in (self.cached, self.listed))
        return f"node {self.node_name}: {self.fact} is {cached}, listed {listed}"


class Differences(msgspec.Struct, frozen=True):
    """What the cluster should know but does not (missed), knows but should not (redundant), and has otherwise."""

    missed_nodes: list[str]
    redundant_nodes: list[str]
    missed_pods: list[str]
    redundant_pods: list[str]
    misplaced_pods: list[str]
    changed_pods: list[str]
    nodes: list[NodeDifference]
    missed_objects: list[str]
    redundant_objects: list[str]

    def __bool__(self) -> bool:
        return any(getattr(self, field) for field in self.__struct_fields__)

    def lines(self) -> list[str]:
        """Say it in words; nothing if there are no differences."""
        return [
            *_named("missed nodes", self.missed_nodes),
            *_named("redundant nodes", self.redundant_nodes),
            *_named("missed pods", self.missed_pods),
            *_named("redundant pods", self.redundant_pods),
            *_named("misplaced pods", self.misplaced_pods),
            *_named("pods with other labels or affinity", self.changed_pods),
            *_named("missed objects", self.missed_objects),
            *_named("redundant objects", self.redundant_objects),
            *(str(difference) for difference in self.nodes[:_MOST_NAMED]),
            *([f"and {len(self.nodes) - _MOST_NAMED} more"] if len(self.nodes) > _MOST_NAMED else []),
        ]


def compare(cluster: Cluster, listed: Cluster) -> Differences:
    """Compare a cluster with one that was made, just now and from scratch, of what the API server lists.

    Making `listed` takes a second for 150,000 pods, and may be done in slices: it touches only itself. Comparing takes
    half a second for these on 5,000 nodes, and reads one state of the cluster: what changed since the list is a
    difference, too. A placement ahead of the watch counts, unless the list shows that pod on a node already.
    """
    slots_here, slots_there = _known_pods(cluster), _known_pods(listed)
    here = {uid: cluster.pods[slot] for uid, slot in slots_here.items()}
    there = {uid: listed.pods[slot] for uid, slot in slots_there.items()}
    ahead = {placement.uid: placement.node_name for placement in cluster.placements}
    missed_nodes, redundant_nodes = _missed_and_redundant(listed.node_names(), cluster.node_names())
    return Differences(
        missed_nodes,
        redundant_nodes,
        missed_pods=sorted(identity(facts) for uid, facts in there.items() if uid not in here and uid not in ahead),
        redundant_pods=sorted(identity(facts) for uid, facts in here.items() if uid not in there),
        misplaced_pods=sorted(
            f"{identity(facts)} is on {here[uid].node_name or 'no node'}, listed on {facts.node_name or 'no node'}"
            for uid, facts in there.items()
            if uid in here and facts.node_name not in (here[uid].node_name, ahead.get(uid))
        ),
        changed_pods=sorted(
            identity(there[uid])
            for uid, slot in slots_there.items()
            if uid in here and _wishes(cluster.pods, slots_here[uid]) != _wishes(listed.pods, slot)
        ),
        nodes=_node_differences(cluster, listed, there),
        missed_objects=sorted(_other_objects(listed) - _other_objects(cluster)),
        redundant_objects=sorted(_other_objects(cluster) - _other_objects(listed)),
    )


def identity(facts: PodFacts) -> str:
    """Return a pod's namespace, name and UID as one text."""
    return f"{facts.namespace}/{facts.name} ({facts.uid})"


def _known_pods(cluster: Cluster) -> dict[str, int]:
    """The slot of each pod that the watch has reported, by UID."""
    ahead = {placement.slot for placement in cluster.placements}
    return {facts.uid: slot for slot, facts in enumerate(cluster.pods.facts) if facts is not None and slot not in ahead}


def _wishes(pods: PodTable, slot: int) -> tuple[LabelSet, PodAffinityTerms]:
    """The labels of a pod, which other pods' terms select by, and its own affinity terms."""
    return pods.label_sets[int(pods.label_set[slot])], pods.terms_of(slot)


def _other_objects(cluster: Cluster) -> set[str]:
    """All known objects except nodes and pods, by kind, name and resource version."""
    return {
        f"{type(item).__name__} {'/'.join(filter(None, key_of(item)))} at version {item.metadata.resource_version}"
        for item in chain(cluster.workloads, cluster.storage)
    }


def _node_differences(cluster: Cluster, listed: Cluster, listed_pods: dict[str, PodFacts]) -> list[NodeDifference]:
    cached, wanted = _node_facts(cluster), _node_facts(listed)
    names = cluster.nodes.dimensions.names()
    for placement in cluster.placements:
        known = listed_pods.get(placement.uid)
        if known is None or not known.node_name:
            for dimension, amount in enumerate(cluster.pods.amounts_of(placement.slot).tolist()):
                if amount:
                    cell = (placement.node_name, f"requested {names[dimension]}")
                    wanted[cell] = int(wanted.get(cell, 0)) + amount
            for port in cluster.pods.ports_of(placement.slot):
                wanted[placement.node_name, f"host port {'/'.join(map(str, port))}"] = "in use"
    return [
        NodeDifference(*cell, cached.get(cell), wanted.get(cell))
        for cell in sorted(cached.keys() | wanted.keys())
        if cached.get(cell) != wanted.get(cell) and cluster.nodes.is_node(cell[0]) and listed.nodes.is_node(cell[0])
    ]


def _node_facts(cluster: Cluster) -> _Facts:
    """What the columns say of each node."""
    table = cluster.nodes
    facts: _Facts = {}
    names = table.dimensions.names()
    for title, matrix in (("allocatable", table.allocatable), ("requested", table.requested)):
        dimensions, rows = np.nonzero(matrix[:, : table.size])
        for dimension, row, amount in zip(
            dimensions.tolist(), rows.tolist(), matrix[dimensions, rows].tolist(), strict=True
        ):
            facts[table.names[row], f"{title} {names[dimension] or dimension}"] = amount
    for name, row in table.row_of.items():
        node = table.objects[row]
        if node is not None:
            facts.update(((name, f"label {key}"), value) for key, value in node.metadata.labels.items())
        if table.unschedulable[row]:
            facts[name, "unschedulable"] = "true"
        for taint in table.taint_sets.values[table.taint_set[row]] or ():
            facts[name, f"taint {taint.key}={taint.value}:{taint.effect}"] = "set"
        for port in table.port_sets.values[table.port_set[row]] or ():
            facts[name, f"host port {'/'.join(map(str, port))}"] = "in use"
    return facts


def _missed_and_redundant(actual: Iterable[str], cached: Iterable[str]) -> tuple[list[str], list[str]]:
    actual, cached = set(actual), set(cached)
    return sorted(actual - cached), sorted(cached - actual)


def _named(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = ", …" if len(items) > _MOST_NAMED else ""
    return [f"{title} ({len(items)}): {', '.join(items[:_MOST_NAMED])}{more}"]

"""What a cluster's tables say of pods, without the numbers of rows and slots, which follow from its history."""

from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.debugging.table_sizes import table_sizes
from extender_service.cluster.nodes.volume_support import limit_key
from extender_service.cluster.pods.pod_counts import PodQuery
from extender_service.cluster.pods.running_terms import TermCounts
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import label_set_selector

WEB = PodQuery((PodSelector(frozenset({"default"}), label_set_selector({"app": "web"})),))
EBS = limit_key("ebs.csi.aws.com")


def _requested_cpu(nodes: NodeView) -> NDArray[np.int64]:
    return nodes.requested(CPU_MILLI)


def portrait(cluster: Cluster) -> dict[str, Any]:
    """Pods and what follows from where they are, as values that can be compared.

    What a cluster keeps for those who ask again is asked for, and so kept from then on.
    """
    table, pods = cluster.nodes, cluster.pods
    ahead = {placement.slot: placement.assumed for placement in cluster.placements}
    slots = [slot for slot, facts in enumerate(pods.facts) if facts is not None]
    requested = cluster.view(None).kept_by_room(_requested_cpu)
    nominations = cluster.nominations._by_uid.values()
    terms = pods.anti_affinity.about(LabelSet("default", {"app": "web"}), {})
    return {
        "facts": {pods[slot].uid: _pod(cluster, slot) for slot in slots if slot not in ahead},
        "placements": {pods[slot].uid: (_pod(cluster, slot), ahead[slot]) for slot in slots if slot in ahead},
        "pods": {key: cluster.pods[slot].key for key, slot in cluster._slot_by_key.items()},
        "uids": {uid: cluster.pods[slot].uid for uid, slot in cluster._slot_by_uid.items()},
        "nominations": {item.uid: (pods[item.slot].uid, item.node_name) for item in nominations},
        "requested": _by_name(cluster, requested),
        "counts": _by_name(cluster, cluster.pod_counts.by_row(WEB, table.size)),
        "anti-affinity": {counts.key: _by_name(cluster, _by_row(counts, table.size)) for counts in terms},
        "attached": _by_name(cluster, cluster.held_volumes.attached(EBS, migrated=True)),
        # The others hold what was asked for.
        "sizes": {size.name: size.entries for size in table_sizes(cluster) if size.limit is None},
    }


def _pod(cluster: Cluster, slot: int) -> dict[str, Any]:
    pods = cluster.pods
    facts = structs.asdict(pods[slot])
    names = {row: name for name, row in cluster.nodes.row_of.items()}
    return {
        **facts,
        "requests": pods.request_sets.values[facts["requests"]],
        "row": names.get(int(pods.row[slot])),
        "labels": pods.label_sets[int(pods.label_set[slot])],
        "terms": pods.terms_of(slot),
        "ports": pods.ports_of(slot),
        "order": (int(pods.priority[slot]), int(pods.started[slot]), bool(pods.preempted[slot])),
        "in group": bool(pods.in_group[slot]),
        "terminating": bool(pods.terminating[slot]),
        "attached": cluster.held_volumes.held_by(slot, EBS, migrated=True),
    }


def _by_row(counts: TermCounts, size: int) -> NDArray[np.int64]:
    sums = np.zeros(size, np.int64)
    counts.add_by_value(sums, np.arange(size))
    return sums


def _by_name(cluster: Cluster, column: NDArray[np.int64]) -> dict[str, int]:
    """The numbers that are not 0."""
    return {name: int(column[row]) for name, row in cluster.nodes.row_of.items() if row < len(column) and column[row]}

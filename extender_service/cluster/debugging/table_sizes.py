"""How much is kept of a cluster, table by table.

Tables hold what objects have brought for as long as these are there: once they are gone, so is what they brought.
Tables with a limit hold what decisions have asked for, the last of it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from extender_service.cluster.owners.owners import MOST_ANSWERS, MOST_SELECTIONS
from extender_service.cluster.pods.running_terms import MOST_ABOUT, MOST_SUMS
from extender_service.cluster.state.cluster import Cluster


class TableSize(NamedTuple):
    """How many entries a table has, and how many it may have at most; None where that follows from the cluster."""

    name: str
    entries: int
    limit: int | None = None


def table_sizes(cluster: Cluster) -> Iterator[TableSize]:
    """Yield the sizes of all tables."""
    nodes, pods, workloads = cluster.nodes, cluster.pods, cluster.workloads
    memory, memo = cluster.memory, cluster.memory.memo()
    columns, label_sets = nodes.label_columns, pods.label_sets
    yield TableSize("node_rows", len(nodes.row_of))
    yield TableSize("taint_sets", len(nodes.taint_sets))
    yield TableSize("node_port_sets", len(nodes.port_sets))
    yield TableSize("volume_supports", len(nodes.volume_supports))
    yield TableSize("images", len(nodes.images))
    yield TableSize("dimensions", len(nodes.dimensions))
    yield TableSize("unoffered_resources", pods.unoffered_count)
    yield TableSize("node_label_keys", len(columns), columns.limit)
    yield TableSize("node_label_values", columns.value_count, columns.limit * nodes.size)
    yield TableSize("kept_by_facts", len(memory.by_facts), memory.by_facts.most_entries)
    yield TableSize("kept_by_room", len(memory.by_room), memory.by_room.most_entries)
    yield TableSize("remembered", memo.entry_count, memo.most_entry_count)
    yield TableSize("pod_slots", len(pods))
    yield TableSize("request_sets", len(pods.request_sets))
    yield TableSize("pod_port_sets", len(pods.port_sets))
    yield TableSize("label_sets", len(label_sets))
    yield TableSize("namespaces", label_sets.namespace_count)
    yield TableSize("pod_label_keys", label_sets.indexed_count, label_sets.limit)
    yield TableSize("pod_counts", len(cluster.pod_counts), cluster.pod_counts.most_entries)
    yield TableSize("term_sets", len(pods.term_sets))
    yield TableSize("anti_affinity_terms", len(pods.anti_affinity))
    yield TableSize("affinity_terms", len(pods.affinity))
    yield TableSize("anti_affinity_sums", pods.anti_affinity.sum_count, MOST_SUMS)
    yield TableSize("affinity_sums", pods.affinity.sum_count, MOST_SUMS)
    yield TableSize("anti_affinity_matches", pods.anti_affinity.about_count, MOST_ABOUT)
    yield TableSize("affinity_matches", pods.affinity.about_count, MOST_ABOUT)
    yield TableSize("known_pods", cluster.pod_count)
    yield TableSize("placements", len(cluster.placements))
    yield TableSize("nominations", len(cluster.nominations))
    yield from (TableSize(f"storage_{name}", entries) for name, entries in cluster.storage.sizes().items())
    yield from (TableSize(f"volumes_{name}", entries) for name, entries in cluster.held_volumes.sizes().items())
    yield from (TableSize(f"workload_{name}", entries) for name, entries in workloads.sizes().items())
    yield TableSize("namespace_selections", workloads.selection_count, MOST_SELECTIONS)
    yield TableSize("workload_answers", workloads.answer_count, MOST_ANSWERS)

"""What the cluster knows, written down for people, as kube-scheduler's cache dumper does."""

from collections.abc import Iterator

from extender_service.cluster.debugging.comparison import identity
from extender_service.cluster.debugging.table_sizes import table_sizes
from extender_service.cluster.state.cluster import Cluster


def dump(cluster: Cluster) -> Iterator[str]:
    """Write down the nodes, the placements that are ahead of the watch, and the sizes of the tables; a line for each.

    Nodes are written as requested/allocatable amounts by dimension, also those not known that pods are on. Takes some
    hundredths of a second for 5,000 nodes.
    """
    table, pods = cluster.nodes, cluster.pods
    names = table.dimensions.names()
    for node_name, row in table.row_of.items():
        known = "" if table.exists[row] else " (not known)"
        amounts = zip(names, table.requested[:, row].tolist(), table.allocatable[:, row].tolist(), strict=False)
        used = ", ".join(f"{name} {taken}/{offered}" for name, taken, offered in amounts if taken or offered)
        yield f"node {node_name}{known}: {used or 'nothing'}"
    for placement in cluster.placements:
        kind = "assumed" if placement.assumed else "expected"
        yield f"pod {identity(pods[placement.slot])} is {kind} on {placement.node_name}"
    yield (
        f"tables: {table.count} nodes in {table.size} rows of {table.capacity}; "
        f"{cluster.pod_count} pods and {len(cluster.placements)} placements in {len(pods.facts)} slots"
    )
    for size in table_sizes(cluster):
        yield f"table {size.name}: {size.entries}" + ("" if size.limit is None else f" of {size.limit} at most")

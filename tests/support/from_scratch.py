"""What pods add up to, worked out in plain Python from the objects of these tests, which have whole amounts only."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.kube.types.core import Pod

# The amounts of one node by resource, in scheduling's units.
Amounts = Counter[str]


def amounts_of(raw: Mapping[str, object]) -> Amounts:
    """Amounts in scheduling's units of a resource list in which all numbers are whole."""
    return Counter({name: int(str(amount)) * (1000 if name == "cpu" else 1) for name, amount in raw.items()})


def taken_by(pods: Iterable[Pod]) -> Amounts:
    """What pods of one container request together."""
    taken = Amounts()
    for pod in pods:
        requests = pod.spec.containers[0].resources.requests
        amounts = amounts_of({**requests})
        amounts["pods"] = 1
        amounts["nonzero cpu"] = amounts["cpu"] if "cpu" in requests else 100
        amounts["nonzero memory"] = amounts["memory"] if "memory" in requests else 200 * 2**20
        taken.update(amounts)
    return taken


def ports_of(pods: Iterable[Pod]) -> frozenset[tuple[str, str, int]]:
    """The host ports of pods of one container, all of them TCP on every address."""
    return frozenset(("0.0.0.0", "TCP", port.host_port) for pod in pods for port in pod.spec.containers[0].ports)


def matrix_of(table: NodeTable, amounts: Mapping[str, Amounts]) -> NDArray[np.int64]:
    """Amounts by node as a column for each row of the table, as in `allocatable` and `requested`.

    Resources that no node offers are left out.
    """
    matrix = np.zeros_like(table.requested)
    special = {"nonzero cpu": NONZERO_CPU_MILLI, "nonzero memory": NONZERO_MEMORY_BYTES}
    for name, of_node in amounts.items():
        for resource, amount in of_node.items():
            dimension = special.get(resource, table.dimensions.find(resource))
            if dimension >= 0:  # otherwise no node offers it
                matrix[dimension, table.row_of[name]] = amount
    return matrix

"""The workloads of the comparison: those of bench.workloads, and more, each with its nodes and what else they need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.workloads import Workload, nodes, workloads
from tests.e2e.support.objects import Object


@dataclass(frozen=True)
class Scene:
    """A cluster and the pods to bind in it."""

    workload: Workload
    nodes: Sequence[Object]


def _of_throughput(name: str) -> Callable[[int, int], Scene]:
    def make(node_count: int, pod_count: int) -> Scene:
        [workload] = [each for each in workloads(node_count, pod_count) if each.name == name]
        return Scene(workload, nodes(node_count))

    return make


SCENES: Mapping[str, Callable[[int, int], Scene]] = {
    name: _of_throughput(name)
    for name in (
        "basic",
        "node affinity",
        "topology spread",
        "pod affinity",
        "pod anti-affinity",
    )
}

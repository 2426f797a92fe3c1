"""What the schedulers are measured on: clusters, the pods to bind in them, and what happens meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench import workloads
from bench.scheduler import more_workloads, unlike
from bench.scheduler.disturbances import Disturbance, arrive, churn, replace_old_pods, wake
from bench.scheduler.gang_plugin import PODS_OF_GANG
from bench.workloads import PRIORITY_CLASS, Workload
from tests.e2e.support.objects import Object

_MOST_NODES_PREEMPTION = {"real": 1000, "stub": 5000}  # each comes with four pods


@dataclass(frozen=True)
class Scene:
    """A cluster and the pods to bind in it.

    `belongings` are objects besides nodes that the pods need, in the order of their creation. `arriving` are pods that
    a disturbance creates while the scheduler runs, `passing` other objects that it creates and deletes again and again.
    `plugins` are those that `schedule` must have, as MODULE:CLASS; if there are any, kube-scheduler cannot run the
    scene.
    """

    workload: Workload
    nodes: Sequence[Object]
    belongings: Sequence[Object] = ()
    arriving: Sequence[Object] = ()
    disturbances: Sequence[Disturbance] = ()
    plugins: Sequence[str] = ()
    passing: Sequence[Object] = ()

    @property
    def cluster(self) -> list[Object]:
        """All objects except pods."""
        return [PRIORITY_CLASS, *self.nodes, *self.belongings]

    @property
    def pods(self) -> list[Object]:
        """The pods that are there when the scheduler starts."""
        return [*self.workload.running, *self.workload.hopeless, *self.workload.measured]

    @property
    def wanted(self) -> int:
        """How many pods are to be bound."""
        return len(self.workload.measured) + len(self.arriving)


def at_rate(scene: Scene, pods_a_second: int) -> Scene:
    """Return the scene with one pod to bind at first, or a whole gang, as nothing is written about the first of one.

    The others arrive once the scheduler has written something.
    """
    count = PODS_OF_GANG if scene.plugins else 1
    first, others = scene.workload.measured[:count], scene.workload.measured[count:]
    workload = replace(scene.workload, measured=first)
    arrivals = arrive(others, pods_a_second)
    return replace(
        scene, workload=workload, arriving=[*others, *scene.arriving], disturbances=[*scene.disturbances, arrivals]
    )


def _like_scheduler_perf(name: str) -> Callable[[int, int], Scene]:
    def make(node_count: int, pod_count: int) -> Scene:
        [workload] = [each for each in workloads.workloads(node_count, pod_count) if each.name == name]
        scene = Scene(workload, workloads.nodes(node_count))
        return replace(scene, disturbances=[churn], passing=workloads.churn()) if workload.churns else scene

    return make


def _replica_sets(node_count: int, pod_count: int) -> Scene:
    owners, pods = more_workloads.replica_sets("web", pod_count)
    return Scene(Workload("replica sets", pods), workloads.nodes(node_count), owners)


def _unlike(node_count: int, pod_count: int) -> Scene:
    running = unlike.pods("old", node_count // 5)
    for number, pod in enumerate(running):
        pod["spec"]["nodeName"] = f"node-{number * 5:05}"
    return Scene(Workload("unlike", unlike.pods("pod", pod_count), running), unlike.nodes(node_count))


def _volumes(node_count: int, pod_count: int) -> Scene:
    belongings, pods = more_workloads.with_volumes(node_count, pod_count)
    return Scene(Workload("volumes", pods), workloads.nodes(node_count), belongings)


def _gangs(node_count: int, pod_count: int) -> Scene:
    pods = more_workloads.gangs(pod_count)
    return Scene(
        Workload("gangs", pods), workloads.nodes(node_count), plugins=["bench.scheduler.gang_plugin:WholeGang"]
    )


def _woken(node_count: int, pod_count: int) -> Scene:
    measured, hopeless = more_workloads.fifth_hopeless(pod_count)
    bound = more_workloads.on_first_node("waker")
    workload = Workload("woken", measured, [bound], hopeless)
    return Scene(workload, workloads.nodes(node_count), disturbances=[wake(bound)])


def _rolling_update(node_count: int, pod_count: int) -> Scene:
    old_owners, old = more_workloads.replica_sets("old", pod_count)
    new_owners, new = more_workloads.replica_sets("new", pod_count)
    for number, pod in enumerate(old):
        pod["spec"]["nodeName"] = f"node-{number % node_count:05}"
    surge = pod_count // 4
    return Scene(
        Workload("rolling update", new[:surge], old),
        workloads.nodes(node_count),
        [*old_owners, *new_owners],
        new[surge:],
        [replace_old_pods(old, new[surge:])],
    )


_LIKE_SCHEDULER_PERF = [each.name for each in workloads.workloads(node_count=10, pod_count=1)]

SCENES: Mapping[str, Callable[[int, int], Scene]] = {
    **{name: _like_scheduler_perf(name) for name in _LIKE_SCHEDULER_PERF},
    "replica sets": _replica_sets,
    "unlike": _unlike,
    "volumes": _volumes,
    "gangs": _gangs,
    "woken": _woken,
    "rolling update": _rolling_update,
}
"""By the name of the workload: makes a scene of so many nodes and pods to bind, or fewer if the nodes have no room."""


def has_room(scene: str, server: str, node_count: int) -> bool:
    """Return whether a scene can be set on a cluster of this size: preemption needs four pods on each node."""
    return scene != "preemption" or node_count <= _MOST_NODES_PREEMPTION[server]

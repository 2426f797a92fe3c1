"""The door for tests of plugins: `Trial` runs one plugin on a small cluster, without a server.

`extender-service serve` never loads this module. Stable are the names in `__all__`, as `extender_service.plugin_api`
says. Of `trial.cluster`, a test may also call `apply_node`, `remove_node`, `apply_pod` and `remove_pod`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec import structs

from extender_service.cluster.cluster import Cluster, pod_uid
from extender_service.cluster.cluster_file import ClusterFile
from extender_service.framework.binding import BindingCycle
from extender_service.framework.interface import Bind, CycleState, Handle, Plugin, extension_points
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import CycleError, run_filter, run_pre_filter, run_pre_score, run_score
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.manifests import ManifestError
from extender_service.kube.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    RawQuantity,
    ResourceRequirements,
)

T = TypeVar("T")

__all__ = ["CycleError", "ManifestError", "Trial", "make_node", "make_pod"]


def make_node(
    name: str,
    allocatable: Mapping[str, RawQuantity] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """Return a node that offers these amounts, as in `{"cpu": "4", "nvidia.com/gpu": 8}`."""
    metadata = ObjectMeta(name=name, labels=dict(labels or {}))
    return Node(metadata, status=NodeStatus(allocatable=dict(allocatable or {})))


def make_pod(
    name: str,
    requests: Mapping[str, RawQuantity] | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_name: str = "",
) -> Pod:
    """Return a pod of one container with these requests; with a `node_name` it is bound. Its UID is NAMESPACE/NAME."""
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
    )
    container = Container(resources=ResourceRequirements(requests=dict(requests or {})))
    return Pod(metadata, PodSpec(node_name=node_name, containers=(container,)))


class Trial:
    """A cluster of the objects given and of those in cluster files, for plugins made with `handle`.

    `pods` are those of the files by namespace/name. Raises ManifestError for a file that cannot be read, and TypeError
    where an argument is not a list of what its name says.
    """

    def __init__(self, nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), *, files: Iterable[Path] = ()) -> None:
        nodes, pods = _all_of(Node, nodes, "nodes"), _all_of(Pod, pods, "pods")
        self.cluster = Cluster()
        cluster_file = ClusterFile(self.cluster, _all_of(Path, files, "files"))
        cluster_file.load()
        self.handle = Handle(self.cluster, cluster_file)
        self.pods = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in cluster_file.pods}
        for node in nodes:
            self.cluster.apply_node(node)
        for pod in pods:
            self.cluster.apply_pod(pod)

    def refusals(self, plugin: Plugin, pod: Pod) -> dict[str, str]:
        """Return why the plugin keeps the pod off nodes, by the name of the node; nodes that pass are left out.

        Runs PreFilter and Filter. Raises CycleError where the plugin fails.
        """
        verdicts = _filter(self.cluster, _alone(plugin), CycleState(pod))
        names = verdicts.view.names
        return {
            names[position]: status.message
            for status, positions in verdicts.groups()
            for position in positions.tolist()
        }

    def scores(self, plugin: Plugin, pod: Pod) -> dict[str, int]:
        """Return the normalized score of each node that the plugin does not refuse; empty if it skips.

        Runs PreFilter, Filter, PreScore and Score. Raises CycleError where the plugin fails.
        """
        profile, state = _alone(plugin), CycleState(pod)
        verdicts = _filter(self.cluster, profile, state)
        nodes = verdicts.view.at(np.flatnonzero(verdicts.passing))
        run_pre_score(profile, state, pod, nodes)
        weighted = run_score(profile, state, pod, nodes).weighted
        return dict(zip(nodes.names, weighted[plugin.name].tolist(), strict=True)) if weighted else {}

    def expect(self, pod: Pod, node_name: str) -> None:
        """Count a pod on the node that filter chose for it, as `--mode replace` does until the pod is bound."""
        self.cluster.placements.expect(pod, pod_uid(pod), node_name)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on the node that it is being bound to, as the bind verb does until the pod is bound."""
        self.cluster.placements.assume(pod, pod_uid(pod), node_name)

    async def bind(self, plugin: Plugin, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node, whatever the plugin says of that node.

        Runs Reserve, Permit, PreBind and PostBind. Raises CycleError, with all that was reserved given back, where the
        plugin refuses or fails.
        """
        binder: dict[str, list[tuple[Plugin, int]]] = {"bind": [(_Binder(None, self.handle), 1)]}
        profile = Profile("default-scheduler", binder | _points(plugin), self.handle.waiting_pods)
        cycle = BindingCycle(profile, CycleState(pod), pod, node_name)
        cycle.reserve()
        self.cluster.placements.assume(pod, pod_uid(pod), node_name, cycle.unreserve, cycle)
        try:
            await cycle.run()
        except BaseException:
            self.cluster.drop_placement(pod_uid(pod))
            raise
        cycle.finish()


def _all_of(kind: type[T], given: Iterable[T], argument: str) -> list[T]:
    takes = "Trial takes a list of nodes, a list of pods and a list of paths: Trial([node], [pod], files=[path])"
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"{takes}; {argument} is a {type(given).__name__}")
    listed = list(given)
    for item in listed:
        if not isinstance(item, kind):
            raise TypeError(f"{takes}; {argument} contains a {type(item).__name__}")
    return listed


class _Binder(Bind):
    """Lets the cluster know at once that a pod is bound."""

    name = "Binder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        del state
        self.handle.cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))


def _points(plugin: Plugin) -> dict[str, list[tuple[Plugin, int]]]:
    return {point: [(plugin, 1)] for point in extension_points(type(plugin))}


def _alone(plugin: Plugin) -> Profile:
    return Profile("default-scheduler", _points(plugin))


def _filter(cluster: Cluster, profile: Profile, state: CycleState) -> Verdicts:
    nodes = cluster.view(None)
    found = run_pre_filter(profile, state, state.pod)
    return run_filter(profile, state, state.pod, nodes, nodes.exists, found)

"""How long a decision about all nodes takes, by kind of pod and by plugin: python -m bench.decision [--nodes 100,5000].

A pod is placed where it was decided, so that each decision meets a cluster that has changed since the last one.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from msgspec import structs

from bench import synthetic
from extender_service.cluster.cluster import Cluster
from extender_service.cluster.cluster_file import ClusterFile
from extender_service.cluster.view import NodeView
from extender_service.config.load import default_config
from extender_service.framework.interface import CycleState, Handle
from extender_service.framework.profile import Profile
from extender_service.framework.registry import Registry
from extender_service.framework.runtime import decide, run_pre_filter, run_pre_score
from extender_service.kube.objects import Pod
from extender_service.plugins.default_plugins import IN_TREE

ROUNDS = 200


def main() -> None:
    """Print decisions by kind of pod, and plugins by size of the cluster."""
    parser = argparse.ArgumentParser(prog="python -m bench.decision", description=__doc__)
    parser.add_argument("--nodes", default="100,1000,5000")
    parser.add_argument("--pods-per-node", type=int, default=30)
    options = parser.parse_args()
    sizes = [int(size) for size in options.nodes.split(",")]
    by_plugin: dict[str, dict[int, float]] = {}
    for size in sizes:
        cluster = synthetic.cluster(size, options.pods_per_node)
        profile = default_profile(cluster)
        print(f"\n{size} nodes, {cluster.pod_count} pods: milliseconds a decision, p50 and p99")
        for kind in synthetic.CLASSES:
            times = decisions(profile, cluster, synthetic.pending_pod(kind))
            print(f"{kind:40} {statistics.median(times):8.3f} {np.percentile(times, 99):8.3f}")
        for kind in synthetic.CLASSES:
            for name, milliseconds in plugin_times(profile, cluster, synthetic.pending_pod(kind)):
                of_sizes = by_plugin.setdefault(name, {})
                of_sizes[size] = max(milliseconds, of_sizes.get(size, 0.0))
    print("\nmilliseconds a plugin takes for all nodes, p50 of the kind of pod that takes longest")
    print(f"{'':50}" + "".join(f"{size:>9}" for size in sizes))
    for name, of_sizes in sorted(by_plugin.items()):
        print(f"{name:50}" + "".join(f"{of_sizes.get(size, 0.0):9.3f}" for size in sizes))


def default_profile(cluster: Cluster) -> Profile:
    """The default profile over a cluster."""
    handle = Handle(cluster, ClusterFile(cluster, []))
    return Registry(IN_TREE).profiles(default_config(), handle)["default-scheduler"]


def decisions(profile: Profile, cluster: Cluster, pod: Pod, rounds: int = ROUNDS) -> list[float]:
    """Decide again and again, placing the pod each time; returns the milliseconds of each but the first."""
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        nodes = cluster.view(None)
        decision = decide(profile, pod, nodes, nodes.exists, score=True)
        chosen = decision.choose() if len(decision.feasible) else None
        times.append((time.perf_counter() - started) * 1000)
        if chosen is not None:
            cluster.apply_pod(placed(pod, number, nodes.names[chosen]))
    for number in range(rounds):
        cluster.remove_pod((pod.metadata.namespace, f"{pod.metadata.name}-{number}"))
    return times[1:]


def placed(pod: Pod, number: int, node_name: str) -> Pod:
    """A copy of a pod, on a node."""
    name = f"{pod.metadata.name}-{number}"
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, name=name, uid=f"uid-{name}"),
        spec=structs.replace(pod.spec, node_name=node_name),
    )


def plugin_times(profile: Profile, cluster: Cluster, pod: Pod) -> Iterator[tuple[str, float]]:
    """Yield each plugin's name and extension point with its median milliseconds on all nodes, on its own."""
    state = CycleState(pod)
    run_pre_filter(profile, state, pod)
    run_pre_score(profile, state, pod, cluster.view(None))
    for pre_filter in profile.pre_filter:
        yield f"{pre_filter.name} PreFilter", median(partial(pre_filter.pre_filter, CycleState(pod), pod))
    for plugin in profile.filter:
        if plugin.name not in state.skipped_filters:
            yield f"{plugin.name} Filter", median(partial(on_nodes, plugin.filter, state, cluster))
    for pre_score in profile.pre_score:
        yield f"{pre_score.name} PreScore", median(partial(on_nodes, pre_score.pre_score, CycleState(pod), cluster))
    for scorer, _ in profile.score:
        if scorer.name not in state.skipped_scores:
            yield f"{scorer.name} Score", median(partial(on_nodes, scorer.score, state, cluster))


def on_nodes(method: Callable[[CycleState, Pod, NodeView], object], state: CycleState, cluster: Cluster) -> None:
    """Call a plugin with all nodes, none of which it has seen."""
    method(state, state.pod, cluster.view(None))


def median(call: Callable[[], object], rounds: int = 30) -> float:
    """The median milliseconds of a call."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    main()

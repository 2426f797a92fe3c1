"""How long a decision takes, by kind of pod and by plugin: python -m bench.decision."""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from bench import synthetic
from extender_service.cluster.cluster import Cluster
from extender_service.cluster.cluster_file import ClusterFile
from extender_service.config.load import default_config
from extender_service.framework.interface import CycleState, Handle
from extender_service.framework.profile import Profile
from extender_service.framework.registry import Registry
from extender_service.framework.runtime import decide, run_pre_filter, run_pre_score
from extender_service.kube.objects import Pod
from extender_service.plugins.default_plugins import ABSENT, IN_TREE

SECONDS = 0.3


def main() -> None:
    """Print a table of decisions by kind of pod, then one of plugins, for each size."""
    parser = argparse.ArgumentParser(prog="python -m bench.decision", description=__doc__)
    parser.add_argument("--nodes", default="100,1000,5000")
    parser.add_argument("--pods-per-node", type=int, default=30)
    options = parser.parse_args()
    for nodes in map(int, options.nodes.split(",")):
        started = time.perf_counter()
        cluster = synthetic.cluster(nodes, options.pods_per_node)
        loaded = time.perf_counter() - started
        print(
            f"\n{nodes} nodes, {nodes * options.pods_per_node} pods (made in {loaded:.1f} s); milliseconds, p50 and p99"
        )
        profile = Registry(IN_TREE, ABSENT).profiles(default_config(), Handle(cluster, ClusterFile(cluster, [])))[
            "default-scheduler"
        ]
        for kind in synthetic.CLASSES:
            report(kind, decision(profile, cluster, synthetic.pending_pod(kind)))
        for kind in ("plain", "spread", "anti-affinity"):
            for name, call in plugin_calls(profile, cluster, synthetic.pending_pod(kind)).items():
                report(f"  {kind}: {name}", call)


def decision(profile: Profile, cluster: Cluster, pod: Pod) -> Callable[[], object]:
    """A whole decision about all nodes: filter, score, choose."""
    nodes = cluster.view(None)
    asked = nodes.exists

    def call() -> object:
        view = cluster.view(None)
        decided = decide(profile, pod, view, asked, score=True)
        return decided.choose() if len(decided.feasible) else None

    return call


def plugin_calls(profile: Profile, cluster: Cluster, pod: Pod) -> dict[str, Callable[[], object]]:
    """Each plugin's calls on all nodes, on its own."""
    state = CycleState(pod)
    run_pre_filter(profile, state, pod)
    run_pre_score(profile, state, pod, cluster.view(None))
    calls: dict[str, Callable[[], object]] = {}
    for pre_filter in profile.pre_filter:
        calls[f"{pre_filter.name} PreFilter"] = lambda plugin=pre_filter: plugin.pre_filter(CycleState(pod), pod)
    for plugin in profile.filter:
        if plugin.name not in state.skipped_filters:
            calls[f"{plugin.name} Filter"] = lambda plugin=plugin: plugin.filter(state, pod, cluster.view(None))
    for scorer, _ in profile.score:
        if scorer.name not in state.skipped_scores:
            calls[f"{scorer.name} Score"] = lambda plugin=scorer: plugin.score(state, pod, cluster.view(None))
    return calls


def report(name: str, call: Callable[[], object]) -> None:
    """Call for a while and print how long it took."""
    call()
    times = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times) < 5:
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    print(f"{name:50} {statistics.median(times):8.3f} {np.percentile(times, 99):8.3f}")


if __name__ == "__main__":
    main()

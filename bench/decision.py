"""Times decisions about all nodes, by class of pods and by plugin: python -m bench.decision.

Compares Filter and Score of the default profile with kube-scheduler's cycle (`kubecycle cycle`), both in process, on
the same cluster, with all nodes scored. Each decision places its pod, so the next one runs on a changed cluster. Some
decisions later, the pod is removed.

"decision" is the decision alone. Compared are the decision and what it takes to count the pod on its node, since
kube-scheduler's cycle begins with renewing what it knows of nodes that have changed ("p50", "in all").

The last tables are of a cluster in which no two nodes and no two pods are alike, beside the other. Only these:
python -m bench.decision unlike.
"""

import itertools
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import NamedTuple, Self

from msgspec import structs

from bench import clusters, synthetic, unlike
from bench.figures import Row, Times, alternately, at_least, compared, quantile
from bench.programs import ALL_NODES, ClusterSize
from bench.run import Run, main
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.loading import default_config
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.framework.runtime import run_pre_filter, run_pre_score
from extender_service.kube.types.core import Pod
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from extender_service.seams import RANDOM

_TARGETS = {  # times faster than kube-scheduler, by number of nodes: for plain pods, and for others
    100: (1 / 2, 1.0),
    5000: (10.0, 30.0),
}
_SPREAD_OR_AFFINITY = ("plain-rs", "spread", "anti-affinity", "pref-pod-affinity")
# Times faster with 5,000 nodes, where no two pods are alike: for pods of these classes, and for others.
_UNLIKE_TARGETS = 25.0, 14.0
_IMAGES = 3  # kubecycle's own default


class Cycle(NamedTuple):
    """Milliseconds of one decision, and of that with counting the pod on its node."""

    decision: float
    in_all: float


class Measured(NamedTuple):
    """Milliseconds of the cycles about a class of pods: the median of decisions alone, and quantiles in all."""

    decision: float
    in_all: Times

    @classmethod
    def of(cls, measured: Sequence[Cycle]) -> Self:
        """Return what single cycles took; at least one is needed."""
        return cls(
            quantile([cycle.decision for cycle in measured], 0.5), Times.of([cycle.in_all for cycle in measured])
        )

    @classmethod
    def over(cls, rounds: Sequence["Measured"]) -> Self:
        """Return the medians of several rounds."""
        return cls(statistics.median(each.decision for each in rounds), Times.over([each.in_all for each in rounds]))


_Rounds = Sequence[Mapping[str, Measured]]


def run(the: Run) -> None:
    """Print a table of classes for each size of the cluster, one of plugins, and those of pods that are unlike."""
    by_plugin: dict[str, dict[int, float]] = {}
    sizes = (100, 500) if the.quick else (100, 500, 1000, 5000)
    for nodes in sizes:
        the.report.progress("decision", f"{nodes} nodes")
        size = ClusterSize(nodes, images=_IMAGES)
        cluster = clusters.load(the.peers, size)
        engine = default_engine(cluster)
        [profile] = engine.profiles
        pods = {name: clusters.pending_pod(the.peers, name) for name in synthetic.CLASSES}
        compare(the, size, engine, pods)
        for pod in pods.values():
            for name, milliseconds in plugin_times(profile, cluster, pod):
                of_sizes = by_plugin.setdefault(name, {})
                of_sizes[nodes] = max(milliseconds, of_sizes.get(nodes, 0.0))
        _with_volumes(the, nodes)
    title = "median of a plugin for all nodes, for the class of pods that takes it longest"
    the.report.table(
        "decision",
        title,
        [
            {"plugin": name, **{f"{nodes} nodes": of_sizes.get(nodes) for nodes in sizes}}
            for name, of_sizes in sorted(by_plugin.items())
        ],
    )
    run_unlike(the)


def run_unlike(the: Run) -> None:
    """Print a table of pods of which no two are alike, beside pods that are, for each size of the cluster."""
    for nodes in (100, 500) if the.quick else (1000, 5000, 15000):
        the.report.progress("decision", f"{nodes} nodes, unlike")
        _compare_unlike(the, ClusterSize(nodes, images=_IMAGES))


def _compare_unlike(the: Run, size: ClusterSize) -> None:
    made = unlike.manifests(size.nodes, size.pods_per_node)
    file = the.directory / f"unlike-{size.nodes}.json"
    unlike.write(made, file)
    unlike_engine = default_engine(unlike.cluster(made))
    # No pod comes twice, in no round: it would find what was kept for it. The peer is a new process in each round.
    unlike_pods = {name: unlike.pending_pods(name) for name in synthetic.CLASSES}
    alike_engine = default_engine(synthetic.cluster(size.nodes, size.pods_per_node, images=size.images))
    alike_pods = {name: itertools.repeat(synthetic.pending_pod(name)) for name in synthetic.CLASSES}
    del made
    clusters.settle()
    rounds = alternately(
        the.rounds,
        partial(_measured, the, unlike_engine, unlike_pods),
        partial(_measured_peer, the, size, unlike_pods, f"-input={file}"),
        partial(_measured, the, alike_engine, alike_pods),
        partial(_measured_peer, the, size, alike_pods),
    )
    title = f"{size.nodes} nodes, {size.nodes * size.pods_per_node} pods: no two alike, beside many alike"
    rows = [_unlike_row(size.nodes, name, *rounds) for name in unlike_pods]
    the.report.table("unlike", title, rows)


def _measured(the: Run, engine: Engine, pods: Mapping[str, Iterator[Pod]]) -> dict[str, Measured]:
    return {name: Measured.of(cycles(engine, each, _budget_seconds(the))) for name, each in pods.items()}


def _measured_peer(the: Run, size: ClusterSize, classes: Collection[str], *options: str) -> dict[str, Measured]:
    """Measure kube-scheduler's cycle by class of pods; none without Go."""
    if the.peers is None:
        return {}
    chosen = (f"-classes={','.join(classes)}", f"-budget={_budget_seconds(the)}s")
    rows = the.peers.cycle(size, ALL_NODES, *chosen, *options)
    # Its cycle begins with taking in what was placed before, and is not taken apart.
    return {row["class"]: Measured(row["p50_ms"], Times(row["p50_ms"], row["p99_ms"])) for row in rows}


def _budget_seconds(the: Run) -> float:
    return 0.1 if the.quick else 0.5


def _unlike_row(
    nodes: int, name: str, ours: _Rounds, theirs: _Rounds, ours_alike: _Rounds, theirs_alike: _Rounds
) -> Row:
    target = None if nodes != 5000 else _UNLIKE_TARGETS[name not in _SPREAD_OR_AFFINITY]
    return {
        "nodes": nodes,
        "class": name,
        "decision": statistics.median(of_class[name].decision for of_class in ours),
        "in all": statistics.median(of_class[name].in_all.p50 for of_class in ours),
        "peer": statistics.median(of_class[name].in_all.p50 for of_class in theirs) if theirs[0] else None,
        "alike: in all": statistics.median(of_class[name].in_all.p50 for of_class in ours_alike),
        "times faster": _times_faster(name, ours_alike, theirs_alike),
        **at_least("unlike: times faster", _times_faster(name, ours, theirs), target),
    }


def _times_faster(name: str, ours: _Rounds, theirs: _Rounds) -> float | None:
    """Return the median of the ratios of each round; None without Go."""
    if not theirs[0]:
        return None
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(peer[name].in_all.p50 / own[name].in_all.p50 for own, peer in pairs)


def compare(the: Run, size: ClusterSize, engine: Engine, pods: Mapping[str, Pod]) -> None:
    """Print a table of a cluster of this size, which the engine knows, with a row for each of these classes of pods."""
    always_the_same = {name: itertools.repeat(pod) for name, pod in pods.items()}
    ours, theirs = (
        {name: Measured.over([of_class[name] for of_class in rounds]) for name in rounds[0]}
        for rounds in alternately(
            the.rounds, partial(_measured, the, engine, always_the_same), partial(_measured_peer, the, size, pods)
        )
    )
    pod_count = engine.cluster.pod_count
    title = f"{size.nodes} nodes, {pod_count} pods; the service in process, kube-scheduler's cycle in process"
    the.report.table(
        "decision",
        title,
        [
            _row(size.nodes, name, measured, theirs.get(name), _target(size.nodes, name))
            for name, measured in ours.items()
        ],
    )


def _row(nodes: int, name: str, ours: Measured, theirs: Measured | None = None, target: float | None = None) -> Row:
    peer = None if theirs is None else theirs.in_all
    return {"nodes": nodes, "class": name, "decision": ours.decision, **compared(ours.in_all, peer, target)}


def _target(nodes: int, pod_class: str) -> float | None:
    if nodes not in _TARGETS:
        return None
    plain, others = _TARGETS[nodes]
    if pod_class == "plain":
        return plain
    return others if nodes == 100 or pod_class in _SPREAD_OR_AFFINITY else None


def _with_volumes(the: Run, nodes: int) -> None:
    engine = default_engine(synthetic.cluster(nodes, 10))
    measured = Measured.of(cycles(engine, itertools.repeat(synthetic.pending_pod("volumes")), 0.3))
    title = f"{nodes} nodes, of which each has a pod with a volume"
    the.report.table("decision", title, [_row(nodes, "volumes", measured)])


def default_engine(cluster: Cluster, random: Random = RANDOM) -> Engine:
    """Return an engine with the default profile of the release that the cluster follows."""
    files = ClusterFile(cluster, [])
    handle = Handle(cluster, files, random=random)
    registry = Registry(IN_TREE, rules=cluster.rules)
    config = default_config(ARGS_TYPES, cluster.rules)
    return Engine(cluster, Profiles(registry.profiles(config, handle)), files)


def default_profile(cluster: Cluster, random: Random = RANDOM) -> Profile:
    """Return the default profile, with plugins that read this cluster."""
    [profile] = default_engine(cluster, random).profiles
    return profile


def decisions(engine: Engine, pod: Pod, budget_seconds: float) -> list[float]:
    """Decide repeatedly about one pod, and place it each time; see `cycles`. Returns the milliseconds of decisions."""
    return [cycle.decision for cycle in cycles(engine, itertools.repeat(pod), budget_seconds)]


def cycles(engine: Engine, pods: Iterator[Pod], budget_seconds: float) -> list[Cycle]:
    """Decide about one pod after the other, and place each. Returns the times of each cycle except the first three.

    Makes 20 to 300 decisions within the budget, like `kubecycle`. Restores the cluster in the end.
    """
    cluster = engine.cluster
    times: list[Cycle] = []
    placed: deque[Pod] = deque()
    most_placed = min(20, cluster.node_count // 10 + 1)
    begun = time.perf_counter()
    while len(times) < 303 and (len(times) < 23 or time.perf_counter() - begun < budget_seconds):
        pod = next(pods)
        started = time.perf_counter()
        decision = engine.decide(Question(pod, engine.nodes.all()))
        chosen = decision.choose()
        decided = time.perf_counter()
        placed.append(_placed(pod, len(times), decision.verdicts.view.name_at(chosen)))
        before = time.perf_counter()
        cluster.apply_pod(placed[-1])
        engine.prepare()
        decision_ms = (decided - started) * 1000
        times.append(Cycle(decision_ms, decision_ms + (time.perf_counter() - before) * 1000))
        if len(placed) > most_placed:
            cluster.remove_pod(_key(placed.popleft()))
    for remaining in placed:
        cluster.remove_pod(_key(remaining))
    return times[3:]


def _placed(pod: Pod, number: int, node_name: str) -> Pod:
    name = f"{pod.metadata.name}-{number}"
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, name=name, uid=f"uid-{name}"),
        spec=structs.replace(pod.spec, node_name=node_name),
    )


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def plugin_times(profile: Profile, cluster: Cluster, pod: Pod) -> Iterator[tuple[str, float]]:
    """Yield each plugin's name and extension point with its median milliseconds on all nodes, on its own."""
    state = CycleState(pod)
    run_pre_filter(profile, state, pod)
    run_pre_score(profile, state, pod, cluster.view(None))
    for pre_filter in profile.pre_filter:
        yield f"{pre_filter.name} PreFilter", _median(partial(pre_filter.pre_filter, CycleState(pod), pod))
    for plugin in profile.filter:
        if plugin.name not in state.skipped_filters:
            yield f"{plugin.name} Filter", _median(partial(_on_nodes, plugin.filter, state, cluster))
    for pre_score in profile.pre_score:
        yield f"{pre_score.name} PreScore", _median(partial(_on_nodes, pre_score.pre_score, CycleState(pod), cluster))
    for scorer, _ in profile.score:
        if scorer.name not in state.skipped_scores:
            yield f"{scorer.name} Score", _median(partial(_on_nodes, scorer.score, state, cluster))


def _on_nodes(method: Callable[[CycleState, Pod, NodeView], object], state: CycleState, cluster: Cluster) -> None:
    """Call a plugin with a new view of all nodes."""
    method(state, state.pod, cluster.view(None))


def _median(call: Callable[[], object], rounds: int = 30) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    if sys.argv[1:2] == ["unlike"]:
        del sys.argv[1]
        main("python -m bench.decision unlike", __doc__, [run_unlike])
    else:
        main("python -m bench.decision", __doc__, [run])

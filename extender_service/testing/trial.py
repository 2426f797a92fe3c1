"""Tries one plugin on a small cluster."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import NEWEST_RULES, rules_of_release
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Bind, Plugin, extension_points
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import check_retry_on
from extender_service.framework.registry.reads import check_reads
from extender_service.kube.parsing.api_defaults import DEFAULT_SCHEDULER_NAME
from extender_service.kube.types.core import (
    Node,
    Pod,
)
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from extender_service.scheduling.under_way import BindError
from extender_service.seams import RANDOM, Clock, Sleep

T = TypeVar("T")
_Points = Mapping[str, list[tuple[Plugin, int]]]
_DELETED_NODE = "deleted-node"


class Trial:
    """A cluster of the objects given and of those in cluster files, for plugins made with `handle`.

    `pods` are those of the files by namespace/name. Plugins find `clock`, `sleep` and `random` on the handle. Besides
    nodes and pods, they find objects of the kinds in their `reads` alone. The first row of the node table is that of a
    node which was deleted. `release` is that of Kubernetes to follow. Raises ManifestError for a file that cannot be
    read, TypeError where an argument is not a list of what its name says, and ValueError for a release that cannot be
    followed.
    """

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        *,
        files: Iterable[Path] = (),
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Random = RANDOM,
        release: str = NEWEST_RULES.release,
    ) -> None:
        nodes, pods = _all_of(Node, nodes, "nodes"), _all_of(Pod, pods, "pods")
        self.cluster = Cluster(rules_of_release(release))
        # A plugin that takes every row for a node would fail only in production, after the first node is deleted.
        self.cluster.nodes.hold_row(_DELETED_NODE)
        self._files = ClusterFile(self.cluster, _all_of(Path, files, "files"))
        self._files.load()
        self.handle = Handle(self.cluster, self._files, clock=clock, sleep=sleep, random=random)
        self.pods = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in self._files.pods}
        for node in nodes:
            self.cluster.apply_node(node)
        for pod in pods:
            self.cluster.apply_pod(pod)

    def refusals(self, plugin: Plugin, pod: Pod) -> dict[str, str]:
        """Return why the plugin keeps the pod off nodes, by the name of the node; nodes that pass are left out.

        Runs PreFilter and Filter. Raises CycleError where the plugin fails.
        """
        verdicts = self._decide(plugin, pod).verdicts
        return {
            name: status.message
            for status, positions in verdicts.groups()
            for name in verdicts.view.names_at(positions)
        }

    def scores(self, plugin: Plugin, pod: Pod) -> dict[str, int]:
        """Return the normalized score of each node that the plugin does not refuse; empty if it skips.

        Runs PreFilter, Filter, PreScore and Score. Raises CycleError where the plugin fails.
        """
        engine = self._engine(self._points(plugin))
        decision = engine.decide(Question(pod, engine.nodes.all()))
        names = decision.verdicts.view.names_at(decision.feasible)
        scores = engine.score(Question(pod, engine.nodes.named(names)), decision.state).weighted
        return dict(zip(names, scores[plugin.name].tolist(), strict=True)) if scores else {}

    def expect(self, pod: Pod, node_name: str) -> None:
        """Count a pod on the node that filter chose for it, as `--mode replace` does until the pod is bound."""
        self.cluster.placements.place(pod, pod_uid(pod), node_name)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on the node that it is being bound to, as the bind verb does until the pod is bound."""
        self.cluster.placements.place(pod, pod_uid(pod), node_name).assume()

    async def bind(self, plugin: Plugin, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node, whatever the plugin says of that node.

        Runs PreFilter and Filter for what they store in the state, then Reserve, Permit, PreBind, its Bind if it has
        one, and PostBind. Raises CycleError, with all that was reserved given back, where the plugin refuses or fails.
        """
        engine = self._engine({"bind": [(_Binder(None, self.handle), 1)], **self._points(plugin)})
        decision = engine.decide(Question(pod, engine.nodes.named_once([node_name]), chosen_elsewhere=True))
        placement = engine.place(pod, node_name, decision)
        try:
            await engine.bind(placement)
        except BindError as error:
            raise CycleError(str(error)) from error

    def _decide(self, plugin: Plugin, pod: Pod) -> Decision:
        engine = self._engine(self._points(plugin))
        return engine.decide(Question(pod, engine.nodes.all()))

    def _points(self, plugin: Plugin) -> _Points:
        check_reads(plugin)
        check_retry_on(plugin, self.cluster.rules)
        self.cluster.show_only(plugin.reads_in(self.cluster.rules))
        return {point: [(plugin, 1)] for point in extension_points(type(plugin))}

    def _engine(self, points: _Points) -> Engine:
        handle = self.handle
        profile = Profile(
            DEFAULT_SCHEDULER_NAME,
            points,
            handle.waiting_pods,
            clock=handle.clock,
            random=handle.random,
            request_rules=self.cluster.request_rules,
        )
        return Engine(self.cluster, Profiles({profile.scheduler_name: profile}), self._files)


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
    """Shows the cluster at once that a pod is bound."""

    name = "Binder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        del state
        self.handle.cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))

"""Plugins that do what a test tells them."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, PreScore, Score
from extender_service.framework.profile import Profile
from extender_service.framework.status import Rejections, Status
from extender_service.kube.types.core import Pod
from extender_service.seams import Clock
from tests.support.objects import make_node

POD = Pod()


def stub_cluster(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.apply_node(make_node(name))
    return cluster


def make_handle(cluster: Cluster) -> Handle:
    """What plugins get; pods are read and bound in files of which there are none."""
    return Handle(cluster, ClusterFile(cluster, []))


class Stub(PreFilter, Filter, PreScore, Score):
    """Answers with what it was given, or what that returns; counts the nodes that it was asked about."""

    def __init__(
        self,
        name: str,
        *,
        pre_filter: Any = None,
        rejects: Mapping[str, Status] | Callable[[], Any] | None = None,
        pre_score: Any = None,
        scores: Mapping[str, int] | Callable[[], Any] | None = None,
        normalized: Callable[[NDArray[np.int64]], NDArray[np.int64]] = lambda scores: scores,
    ) -> None:
        super().__init__(None, make_handle(Cluster()))
        self.name = name  # type: ignore[misc]
        self.asked: list[int] = []
        self._pre_filter = pre_filter
        self._rejects = rejects
        self._pre_score = pre_score
        self._scores = scores
        self._normalized = normalized

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        answer: Status | Collection[str] | None = _answer(self._pre_filter)
        return answer

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        self.asked.append(len(nodes))
        rejects = _answer(self._rejects)
        if rejects is None:
            return None
        statuses = list(rejects.values())
        names = list(rejects)
        keys = np.array([names.index(name) + 1 if name in rejects else 0 for name in nodes.names], np.int64)
        return Rejections(keys, lambda key: statuses[key - 1], may_be_errors=True)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        answer: Status | None = _answer(self._pre_score)
        return answer

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        scores = _answer(self._scores) or {}
        return np.array([scores.get(name, 0) for name in nodes.names], np.int64)

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._normalized(scores)


def make_profile(*plugins: Stub, weights: Mapping[str, int] | None = None, clock: Clock = time.monotonic) -> Profile:
    """A profile in which all plugins are enabled wherever they can be."""
    weighted = [(plugin, (weights or {}).get(plugin.name, 1)) for plugin in plugins]
    points = dict.fromkeys(("preFilter", "filter", "preScore", "score"), weighted)
    return Profile("default-scheduler", points, clock=clock)


def fails(error: BaseException) -> Callable[[], Any]:
    """What raises an error when a plugin is called."""

    def raising() -> Any:
        raise error

    return raising


def _answer(given: Any) -> Any:
    return given() if callable(given) else given

"""NodeResourcesBalancedAllocation: the more evenly a node's resources would be in use, the better."""

from typing import ClassVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.structures.extremes import highest_of, lowest_of
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import MAX_NODE_SCORE, PreScore, Reach, Score
from extender_service.framework.status import SKIP, Status
from extender_service.kube.types.core import Pod
from extender_service.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs
from extender_service.plugins.node_resources.usages import (
    Usages,
    WeighedPod,
    WeightedResource,
    requests_any,
    usages,
    weighed_pod,
)
from extender_service.plugins.shared.integer_division import divide_towards_zero

_WEIGHED = "PreScoreNodeResourcesBalancedAllocation"
_LOWEST_INT64 = -(2.0**63)


class NodeResourcesBalancedAllocation(PreScore, Score):
    """Scores by the standard deviation of the shares of the resources in use: a deviation of 0 gives 100 points.

    Later releases score how much the pod changes that, and leave out pods that request none of the resources.
    """

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NODE
    args_type: ClassVar[type | None] = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = tuple(WeightedResource(resource.name, resource.weight) for resource in args.resources)
        self._skips_best_effort = handle.rules.balance_skips_best_effort
        self._score = _gained_evenness if handle.rules.balance_gained else _evenness

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Add up what the pod requests."""
        weighed = weighed_pod(state, nodes, self._resources, nonzero=False)
        # A pod that requests only what has no score, such as requests.example.com/x, is no best-effort pod.
        if self._skips_best_effort and not any(weighed.amounts) and not requests_any(state, self._resources):
            return SKIP
        state[_WEIGHED] = weighed
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score by the deviation."""
        if _WEIGHED not in state and self.pre_score(state, pod, nodes) is not None:
            return np.zeros(len(nodes), np.int64)
        return nodes.kept_by_room(self._score, state[_WEIGHED])


def _gained_evenness(nodes: NodeView, pod: WeighedPod) -> NDArray[np.int64]:
    """Score 75 where the pod leaves the evenness as it is; at most 100 where it helps, at least 50 where it harms."""
    nothing = structs.replace(pod, amounts=(0,) * len(pod.amounts))
    half = MAX_NODE_SCORE // 2
    twice = half + _evenness(nodes, pod) - _evenness(nodes, nothing)
    return half + divide_towards_zero(twice, np.full(len(twice), 2, np.int64))


def _evenness(nodes: NodeView, pod: WeighedPod) -> NDArray[np.int64]:
    scores = _deviation(usages(nodes, pod))
    np.subtract(1.0, scores, out=scores)
    scores *= MAX_NODE_SCORE
    # Shares of amounts that overflow may be any number below 1. Go's conversion ends at the lowest int64, too.
    if lowest_of(scores, initial=0) < _LOWEST_INT64:
        np.maximum(scores, _LOWEST_INT64, out=scores)
    return scores.astype(np.int64)


def _deviation(of_nodes: Usages) -> NDArray[np.float64]:
    """Return the deviation per node, over the resources that count there; one alone deviates from nothing.

    Sums run in the order of the resources, so that every bit is the reference's.
    """
    offered = of_nodes.offered
    counts = offered.counts
    shares = of_nodes.requested.astype(np.float64)
    shares /= offered.divisors
    if highest_of(shares, axis=None, initial=0) > 1:  # in a third of the time that the next line takes
        np.minimum(shares, 1.0, out=shares)
    if len(shares) < 2:
        return np.zeros(counts.shape[1])
    if len(shares) == 2:
        of_two: NDArray[np.float64] = np.subtract(shares[0], shares[1])
        np.abs(of_two, out=of_two)
        of_two *= 0.5
        if not offered.all_count:
            of_two *= counts[0] & counts[1]
        return of_two
    shares[~counts] = 0.0
    number = counts.sum(axis=0)
    total = np.zeros(len(number))
    difference = np.zeros(len(number))
    before = np.zeros(len(number), np.intp)
    for share, counting in zip(shares, counts, strict=True):
        difference += np.where(before == 0, share, np.where(before == 1, -share, 0.0))
        total += share
        before += counting
    mean = total / np.maximum(number, 1)
    squares = np.zeros(len(number))
    for share, counting in zip(shares, counts, strict=True):
        squares += np.where(counting, (share - mean) * (share - mean), 0.0)
    of_many = np.sqrt(squares / np.maximum(number, 1))
    return np.where(number > 2, of_many, np.where(number == 2, np.abs(difference / 2), 0.0))

"""NodeResourcesBalancedAllocation: the more evenly a node's resources would be in use, the better."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view import NodeView
from extender_service.config.plugin_args import NodeResourcesBalancedAllocationArgs
from extender_service.framework.interface import MAX_NODE_SCORE, CycleState, Handle, PreScore, Score
from extender_service.framework.status import Status
from extender_service.kube.objects import Pod
from extender_service.plugins.resource_scoring import Usage, WeightedResource, pod_amounts, usages

_AMOUNTS = "PreScoreNodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation(PreScore, Score):
    """Scores by the standard deviation of the shares of the resources in use: none is 100 points."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    args_type: ClassVar[type | None] = NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = [WeightedResource(resource.name, resource.weight) for resource in args.resources]

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Add up what the pod requests."""
        state[_AMOUNTS] = self._amounts(state)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score by the deviation."""
        amounts = state[_AMOUNTS] if _AMOUNTS in state else self._amounts(state)
        of_nodes = list(usages(nodes, self._resources, amounts, nonzero=False))
        scores: NDArray[np.int64] = ((1 - _deviation(of_nodes, len(nodes))) * MAX_NODE_SCORE).astype(np.int64)
        return scores

    def _amounts(self, state: CycleState) -> list[int]:
        return pod_amounts(state, self._resources, nonzero=False)


def _deviation(of_nodes: Sequence[Usage], size: int) -> NDArray[np.float64]:
    """Return the deviation per node, over the resources that count there; one alone deviates from nothing.

    Sums run in the order of the resources, so that every bit is the reference's.
    """
    shares = [np.where(usage.counts, np.minimum(usage.requested / usage.allocatable, 1.0), 0.0) for usage in of_nodes]
    number = np.zeros(size, np.int64)
    total = np.zeros(size)
    difference = np.zeros(size)
    for usage, share in zip(of_nodes, shares, strict=True):
        difference += np.where(number == 0, share, np.where(number == 1, -share, 0.0))
        total += share
        number += usage.counts
    if len(shares) < 2:
        return np.zeros(size)
    of_two = np.abs(difference / 2)
    if len(shares) == 2:
        return np.where(number == 2, of_two, 0.0)
    mean = total / np.maximum(number, 1)
    squares = np.zeros(size)
    for usage, share in zip(of_nodes, shares, strict=True):
        squares += np.where(usage.counts, (share - mean) * (share - mean), 0.0)
    of_many = np.sqrt(squares / np.maximum(number, 1))
    return np.where(number > 2, of_many, np.where(number == 2, of_two, 0.0))

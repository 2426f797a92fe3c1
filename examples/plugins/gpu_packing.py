"""GpuPacking: packs GPU pods so that the GPUs left over stay usable. Columnar: one pass over arrays for all nodes.

Five free GPUs on a node hold a job of four, and one GPU is left over. In a cluster that mostly runs jobs of eight, they
hold no job at all. So the value of a node's free GPUs depends on what pods request. The arguments of this plugin list
the usual requests. It computes how many GPUs would be left over on average if pods of one size filled the node. The
best node is the one where the pod lowers that number most: a pod of one GPU goes where one is left over, and last to a
node with eight free GPUs. This is the idea of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), for whole GPUs.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from extender_service.plugin_api import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Handle,
    Many,
    Model,
    NodeView,
    Pod,
    PreScore,
    Score,
    Status,
    pod_requests,
)

# The share of the score for GPUs that stay usable. The rest prefers full nodes, and decides if usability is equal.
USABLE_SHARE = 0.9


class RequestSize(Model):
    """A number of GPUs that pods request, and how common that is compared with the others."""

    gpus: Annotated[int, Field(gt=0)]
    weight: Annotated[float, Field(gt=0)] = 1.0


class GpuPackingArgs(Model):
    """The resource, and what pods usually request of it."""

    resource: str = "nvidia.com/gpu"
    request_sizes: Annotated[Many[RequestSize], Field(min_length=1)] = tuple(
        RequestSize(gpus=gpus) for gpus in (1, 2, 4, 8)
    )


class GpuPacking(PreScore, Score):
    """Scores nodes by how usable their free GPUs stay, then by how few are left. Skips pods that request none."""

    name = "GpuPacking"
    treats_alike = True
    args_type = GpuPackingArgs
    args: GpuPackingArgs

    def __init__(self, args: GpuPackingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._sizes = np.array([size.gpus for size in args.request_sizes], np.int64)
        weights = np.array([size.weight for size in args.request_sizes])
        self._shares = weights / weights.sum()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Read how many GPUs the pod requests."""
        requested = dict(pod_requests(state.request_shape).amounts).get(self.args.resource, 0)
        if requested == 0:
            return SKIP
        state[self] = requested
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Compare the nodes as they would be with the pod on them."""
        newly_stranded, left = nodes.kept_by_room(self._with_pod, nodes.dimension(self.args.resource), state[self])
        cost = USABLE_SHARE * _from_0_to_1(newly_stranded) + (1 - USABLE_SHARE) * _from_0_to_1(left)
        return np.rint(MAX_NODE_SCORE * (1 - cost)).astype(np.int64)

    def _with_pod(self, nodes: NodeView, dimension: int, requested: int) -> NDArray[np.float64]:
        """Return, by node, how many more GPUs the pod would leave over, and how many would still be free.

        Both depend only on what a node offers and what its pods request. So the nodes keep them, and only those that
        changed are computed again.
        """
        free = nodes.allocatable(dimension) - nodes.requested(dimension)
        # Without NodeResourcesFit, the pod may not fit on the node.
        left = np.maximum(free - requested, 0)
        return np.stack([self.stranded(left) - self.stranded(np.maximum(free, 0)), left])

    def stranded(self, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how many of each node's free GPUs the usual requests would leave over, on average."""
        left_over: NDArray[np.float64] = (free[:, np.newaxis] % self._sizes) @ self._shares
        return left_over


def _from_0_to_1(costs: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Scale costs so that the lowest is 0 and the highest 1; 0 for all where they are the same."""
    span = float(np.ptp(costs))
    return (costs - costs.min()) / span if span > 0 else np.zeros(len(costs))

"""QuietStarts: keeps state between decisions. It is written node by node: short, at the cost of a Python call per node.

A pod that starts pulls its image and takes more than later. Requests and limits do not show that. This plugin spreads
pods that are created together over nodes where no other pod is starting.
"""

from collections import Counter
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from extender_service.plugin_api import (
    SKIP,
    CycleState,
    Handle,
    Model,
    NodeInfo,
    NodeView,
    Pod,
    PreScore,
    Reserve,
    ScoreNode,
    Status,
    pod_uid,
    scale_to_max,
)


class QuietStartsArgs(Model):
    """How long a node counts as busy after a pod was placed on it."""

    busy_seconds: Annotated[float, Field(gt=0)] = 60.0


class _Start(NamedTuple):
    node_name: str
    until: float


class QuietStarts(Reserve, PreScore, ScoreNode):
    """Prefers nodes where the fewest pods were placed in the last `busySeconds`.

    The state needs no lock, because one thread does all of this. A restart loses it, and each replica has its own. Keep
    what must not be lost in the cluster, for example in an annotation.
    """

    name = "QuietStarts"
    args_type = QuietStartsArgs
    args: QuietStartsArgs

    def __init__(self, args: QuietStartsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._starts: dict[str, _Start] = {}
        self._starting_on: Counter[str] = Counter()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Note the node that was chosen. A pod that is placed again has one start, the last."""
        self.unreserve(state, pod, node_name)
        self._starts[pod_uid(pod)] = _Start(node_name, self.handle.clock() + self.args.busy_seconds)
        self._starting_on[node_name] += 1

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget the start. The service may call this without `reserve`, and more than once."""
        self._forget(pod_uid(pod))

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Forget starts that are over, once for all nodes. They are in order of time, the oldest first."""
        now = self.handle.clock()
        while self._starts:
            uid, oldest = next(iter(self._starts.items()))
            if oldest.until > now:
                return None
            self._forget(uid)
        return SKIP

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Count the pods that are starting on the node."""
        return self._starting_on[node.name]

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the node with the most starts no points."""
        return scale_to_max(scores, reverse=True)

    def _forget(self, uid: str) -> None:
        start = self._starts.pop(uid, None)
        if start is not None:
            self._starting_on[start.node_name] -= 1
            # A Counter keeps zeros: without this it would have an entry for every node that ever existed.
            if not self._starting_on[start.node_name]:
                del self._starting_on[start.node_name]

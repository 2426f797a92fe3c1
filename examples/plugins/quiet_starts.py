"""QuietStarts: keeps state between decisions. Written node by node, which is short, and costs a Python call per node.

A pod that starts pulls its image, and takes more than it will later. Pods that are created together are spread by this
plugin over nodes where nothing is starting, which requests and limits say nothing about.
"""

import time
from collections import Counter
from collections.abc import Callable
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
    """How long a node counts as busy with a pod that was given to it."""

    busy_seconds: Annotated[float, Field(gt=0)] = 60.0


class _Start(NamedTuple):
    node_name: str
    until: float


class QuietStarts(Reserve, PreScore, ScoreNode):
    """Prefers nodes that were given the fewest pods in the last `busySeconds`.

    All of this happens in one thread, so that the state needs no lock. It is lost when the service starts anew, and
    each replica has its own: what must not be lost belongs into the cluster, say, into an annotation.
    """

    name = "QuietStarts"
    args_type = QuietStartsArgs
    args: QuietStartsArgs

    def __init__(self, args: QuietStartsArgs, handle: Handle, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(args, handle)
        self._clock = clock
        self._starts: dict[str, _Start] = {}
        self._starting_on: Counter[str] = Counter()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Note the node that the pod was given; a pod that is decided about again has one start, the last."""
        self.unreserve(state, pod, node_name)
        self._starts[pod_uid(pod)] = _Start(node_name, self._clock() + self.args.busy_seconds)
        self._starting_on[node_name] += 1

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget it. May be called without a `reserve` before it, and more than once."""
        self._forget(pod_uid(pod))

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Forget starts that are over, once for all nodes. They are in the order of time, so the oldest come first."""
        now = self._clock()
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
            # A counter keeps zeros: without this it would grow by every node there ever was.
            if not self._starting_on[start.node_name]:
                del self._starting_on[start.node_name]

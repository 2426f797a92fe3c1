"""What a plugin is: the extension points, and what a plugin is given.

A plugin subclasses the extension points that it serves. It is called once for all nodes, not once per node: it gets
their facts as columns (`NodeView`) and answers with arrays, one entry per node in the same order.
The points and their contracts are those of k8s.io/kubernetes/pkg/scheduler/framework/interface.go.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from functools import cmp_to_key
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import EVERY_CHANGE, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.status import Rejections, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Object, Pod

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100


class Reach(Enum):
    """Which answers of a plugin may differ about the next pod alike, once a pod was placed on a node.

    - `NONE`: none
    - `NODE`: the verdict on that node, and its score before `normalize`, which depend on no other node
    - `CLUSTER`: any
    """

    NONE = "none"
    NODE = "node"
    CLUSTER = "cluster"


class Plugin(ABC):
    """Base of all plugins. `name` is the one used in configurations; `args` is an `args_type`, or None without one.

    `reads` are the kinds of objects that the plugin needs in the cluster besides nodes and pods.
    `retry_on` are the changes after which a pod that the plugin rejected is worth another attempt (EventsToRegister):
    none for a pod that waits only for a change of its own. It is read once, when the plugin has been constructed.
    With `treats_alike`, the plugin's answer about a pod also holds for a pod that differs only in its name, UID, times
    and own volumes, as long as nothing else changes in the cluster. So it can be asked before that pod arrives.
    `reach` is what may differ for the next such pod once only pods alike were placed: it is not asked about the rest.
    """

    name: ClassVar[str]
    args_type: ClassVar[type | None] = None
    reads: ClassVar[frozenset[type[Object]]] = frozenset()
    treats_alike: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.CLUSTER
    retry_on: Sequence[ClusterEvent] = EVERY_CHANGE

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the names of the extension points that the plugin serves in a release of Kubernetes.

        An in-tree plugin that a release does not have serves none.
        """
        del rules
        return extension_points(cls)

    @classmethod
    def reads_in(cls, rules: Rules) -> frozenset[type[Object]]:
        """Return the kinds of objects that the plugin reads, besides nodes and pods, in a release of Kubernetes."""
        del rules
        return cls.reads

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        """Return the reach for pods like this one; `state` is that of a decision about it."""
        del state, pod
        return self.reach

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return whether a change can help a pod that this plugin rejected (QueueingHintFn).

        `event` is what happened, one that `retry_on` has; `old` and `new` are the object before and after it. `old` is
        None for an object that was added, `new` for one that was deleted. An exception counts as QUEUE, so that no pod
        is forgotten. Called from 1.32 on, and in 1.31 with the feature gate SchedulerQueueingHints; without hints,
        every change helps.
        """
        del event, pod, old, new
        return QueueingHint.QUEUE


class PreEnqueue(Plugin):
    """Keeps a pod out of the queue."""

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return why the pod may not be queued, or None."""


class QueuedPod(msgspec.Struct):
    """A pod in the queue. Do not change it.

    `queued_at` is when it came there last, new or back from an attempt (Go's Timestamp), in seconds of a clock that all
    queued pods share.
    """

    pod: Pod
    queued_at: float


class QueueSort(Plugin):
    """Orders the queue."""

    @abstractmethod
    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return whether `first` is to be scheduled before `second`."""

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return what sorts as `less` does, and does not change when the pod in the queue does.

        A large queue compares pods 20 times for each that it pops. A plugin for such queues returns a tuple here, which
        takes a tenth of the time of a call of `less`.
        """
        return cmp_to_key(self._compare)(QueuedPod(queued.pod, queued.queued_at))

    def _compare(self, first: QueuedPod, second: QueuedPod) -> int:
        if self.less(first, second):
            return -1
        return 1 if self.less(second, first) else 0


class PreFilter(Plugin):
    """Looks at the pod before nodes are filtered."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        """Return None to go on, SKIP to leave out this plugin's Filter, a rejection of the pod on all nodes, or the
        names of the only nodes to look at. An exception ends the cycle with an error."""


class Needs(NamedTuple):
    """How much must be left on a node, by dimension of the node table, after what its pods request.

    Amounts are in milli-CPU for cpu, and in whole units for all else, such as bytes of memory.
    """

    dimensions: tuple[int, ...]
    amounts: tuple[int, ...]


class Filter(Plugin):
    """Rejects nodes that cannot run the pod.

    `depends_on_pods` is whether a verdict may depend on the pods that there are. Otherwise, preemption does not ask
    again about a node that passed, while it tries which pods may stay there.
    """

    depends_on_pods: ClassVar[bool] = True

    @abstractmethod
    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Return which nodes are rejected and why; None if all pass. An exception ends the cycle with an error."""

    def needs(self, state: CycleState, nodes: NodeView) -> Needs | None:
        """Return what a node needs to have left, if `filter` looks at nothing else of the pods that there are.

        Preemption then computes by itself which pods may stay.
        """
        del state, nodes
        return None


class FilterAgain(Protocol):
    """Runs the profile's Filter on nodes whose pods may differ from the cluster's, with nominated pods as in the
    decision."""

    def __call__(self, nodes: NodeView, /) -> Verdicts:
        """Return the verdicts, also on nodes that PreFilter left out. Raises CycleError."""


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod fits once the pods in the slots `victims` are gone, in the reference's order."""

    node_name: str
    victims: tuple[int, ...]
    pdb_violations: int


class PostFilterResult(msgspec.Struct, frozen=True):
    """The outcome of PostFilter: on success, the node that the pod is nominated for, and the slots of the pods to
    delete there. The plugin has not deleted them.

    Without success, `clears_nomination` takes back the pod's nominated node, if it has one. `candidates` are all among
    which that node was chosen; where extenders are to agree, the scheduler chooses again among those that they leave.
    """

    status: Status
    node_name: str = ""
    victims: tuple[int, ...] = ()
    clears_nomination: bool = False
    candidates: Iterable[Candidate] = ()


class PostFilter(Plugin):
    """Runs when no node fits."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        """Try to make room on rejected nodes, by choosing pods to delete there."""


class PreScore(Plugin):
    """Looks at the pod and the feasible nodes before these are scored."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Return None to go on, or SKIP to leave out this plugin's Score. An exception ends the cycle with an error."""


class Score(Plugin):
    """Ranks the feasible nodes."""

    @abstractmethod
    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Return a whole number per node, in the order of the view: the more, the better.

        They are MIN_NODE_SCORE to MAX_NODE_SCORE, unless `normalize` brings them there. An exception ends the cycle
        with an error.
        """

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Scale the scores of all nodes to MIN_NODE_SCORE..MAX_NODE_SCORE (NormalizeScore)."""
        del state, pod, nodes
        return scores


class Reserve(Plugin):
    """Reserves resources for a pod on the node that was chosen for it."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve; a status other than None undoes the reservations of all plugins."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`. Also called if `reserve` was not called, and possibly more than once. Must not raise."""


class Permit(Plugin):
    """Lets a pod go on to be bound, refuses, or makes it wait."""

    @abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Return None or a refusal, or a WAIT status with the seconds to wait at most.

        The pod counts on the node already, as one that is being bound (`Placement.assumed`); it is not among the
        waiting pods yet.
        """


class PreBind(Plugin):
    """Does what must be done before a pod is bound, such as providing its volumes."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return None if `pre_bind` has work to do for a pod, or SKIP to be left out. An exception ends the cycle.

        Called from v1.35 on, only by `schedule`, before the pod waits. Unless all plugins skip, the pod is nominated
        for its node first, by a write of its own.
        """
        del state, pod, node_name
        return None

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Prepare; a status other than None stops the binding."""


class Bind(Plugin):
    """Binds a pod to its node."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return None when bound, SKIP to leave it to the next plugin, or why it failed."""


class PostBind(Plugin):
    """Is notified of pods that were bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Handle the news that the pod was bound; nothing can be refused any more."""


# Extension points by their names in a configuration, in the order of the KubeSchedulerConfiguration type.
EXTENSION_POINTS: dict[str, type[Plugin]] = {
    "preEnqueue": PreEnqueue,
    "queueSort": QueueSort,
    "preFilter": PreFilter,
    "filter": Filter,
    "postFilter": PostFilter,
    "preScore": PreScore,
    "score": Score,
    "reserve": Reserve,
    "permit": Permit,
    "preBind": PreBind,
    "bind": Bind,
    "postBind": PostBind,
}


def extension_points(plugin: type[Plugin]) -> set[str]:
    """Return the names of the extension points that a plugin serves."""
    return {name for name, point in EXTENSION_POINTS.items() if issubclass(plugin, point)}

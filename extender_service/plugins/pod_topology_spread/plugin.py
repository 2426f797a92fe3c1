"""PodTopologySpread: pods of one kind are spread evenly over hosts, zones and the like."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.selection.label_sets import LabelSet, label_set
from extender_service.cluster.structures.extremes import highest_of, lowest_of
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    POD,
    TARGET_POD,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import MAX_NODE_SCORE, Filter, PreFilter, PreScore, Reach, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.parsing.selectors import SelectorError
from extender_service.kube.types.core import Object, Pod, TopologySpreadConstraint
from extender_service.kube.types.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from extender_service.plugins.pod_topology_spread.args import SYSTEM_DEFAULTS, PodTopologySpreadArgs
from extender_service.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    NO_CONSTRAINTS,
    SCHEDULE_ANYWAY,
    Constraints,
    SpreadRules,
    default_constraints,
    own_constraints,
)
from extender_service.plugins.pod_topology_spread.filtering import SpreadRequirement
from extender_service.plugins.pod_topology_spread.hints import (
    spread_changed_by_node,
    spread_helped_by_itself,
    spread_helped_by_node,
    spread_helped_by_pod,
)
from extender_service.plugins.pod_topology_spread.scoring import SpreadPreference
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own
from extender_service.plugins.shared.tolerations import tolerates_in

NO_MATCH = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

_SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", SCHEDULE_ANYWAY),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", SCHEDULE_ANYWAY),
)

# By what is wrong with a node: nothing, LACKS_LABEL, IS_UNEVEN.
_STATUSES = [None, NO_LABEL, NO_MATCH]


_REQUIRED = "PreFilterPodTopologySpread"
_PREFERRED = "PreScorePodTopologySpread"


class PodTopologySpread(PreFilter, Filter, PreScore, Score):
    """Rejects nodes where a pod would make the spread more uneven than its constraints allow, and scores by how even
    the others are kept. Pods without constraints get the configured ones."""

    name: ClassVar[str] = "PodTopologySpread"
    treats_alike: ClassVar[bool] = True
    args_type: ClassVar[type | None] = PodTopologySpreadArgs
    reads: ClassVar[frozenset[type[Object]]] = frozenset({Service, ReplicationController, ReplicaSet, StatefulSet})
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE),
        ClusterEvent(
            NODE, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        ),
    )

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._rules = SpreadRules(handle.rules.spread_counted_apart, tolerates_in(handle.rules))
        rules = handle.rules
        if rules.hints_compare:
            pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
            own = ActionType.UPDATE_POD_TOLERATION | ActionType.UPDATE_POD_LABEL
            if rules.own_changes_named:
                of_pods: tuple[ClusterEvent, ...] = (ClusterEvent(ASSIGNED_POD, pods), ClusterEvent(TARGET_POD, own))
            else:
                of_pods = (ClusterEvent(POD, pods | own),)
            self.retry_on = (*of_pods, *self.retry_on[1:])
        self._is_system_default = args.defaulting_type == SYSTEM_DEFAULTS
        defaults = _SYSTEM_DEFAULTS if self._is_system_default else args.default_constraints
        self._defaults = {
            action: tuple([each for each in defaults if each.when_unsatisfiable == action])
            for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        }

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        """Return that pods without constraints change nothing for each other."""
        return Reach.CLUSTER if _REQUIRED in state or _PREFERRED in state else Reach.NONE

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Find the DoNotSchedule constraints; skip Filter if there are none."""
        constraints = self._constraints(state.label_set, pod, DO_NOT_SCHEDULE, "get constraints from pod: ", "hard")
        if not constraints.each:
            return SKIP
        state[_REQUIRED] = SpreadRequirement(self.handle.cluster, pod, constraints, self._rules)
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes by the first constraint that does not hold."""
        required: SpreadRequirement = state.read(_REQUIRED, "reading")
        numbers: NDArray[np.intp] | None = None
        for constraint in required.constraints.each:
            if numbers is not None and numbers.all():
                break
            failing = required.failing(constraint, nodes)
            if failing is not None:
                numbers = failing if numbers is None else np.where(numbers == 0, failing, numbers)
        return None if numbers is None or not numbers.any() else Rejections.per_value(numbers, _STATUSES)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Count pods for the ScheduleAnyway constraints; skip Score if there are none."""
        constraints = self._constraints(state.label_set, pod, SCHEDULE_ANYWAY, "calculating preScoreState: ", "soft")
        if not constraints.each:
            return SKIP
        # The system's defaults also spread over hosts where nodes have no zone.
        needs_all_keys = bool(pod.spec.topology_spread_constraints) or not self._is_system_default
        state[_PREFERRED] = SpreadPreference(
            self.handle.cluster, pod, constraints, nodes, self._rules, needs_all_keys=needs_all_keys
        )
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Return the weighted sum of the pods that are near already, in every topology."""
        preferred: SpreadPreference = state.read(_PREFERRED, "error reading")
        return preferred.scores(nodes)

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the node with the fewest pods near the most points, and a node without a topology key none."""
        preferred: SpreadPreference = state.read(_PREFERRED, "error reading")
        ignored = preferred.ignored(nodes)
        counting = scores if ignored is None else scores[~ignored]
        lowest, highest = (int(lowest_of(counting)), int(highest_of(counting))) if len(counting) else (0, 0)
        if highest == 0:
            points = np.full(len(scores), MAX_NODE_SCORE, np.int64)
        else:
            points = (highest + lowest) - scores
            points *= MAX_NODE_SCORE
            points //= highest
        if ignored is not None:
            points[ignored] = 0
        return points

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for pods that the constraints count, or no longer count, and for nodes that have all topology keys."""
        rules = self.handle.rules
        if rules.hints_compare and is_own(event, pod, old, new):
            return QueueingHint.queue_if(spread_helped_by_itself(pod, self._hard_constraints, old, new))
        if is_of_pod(event):
            return QueueingHint.queue_if(spread_helped_by_pod(pod, self._hard_constraints, old, new, rules))
        helps = spread_changed_by_node if rules.hints_compare else spread_helped_by_node
        return QueueingHint.queue_if(helps(pod, self._hard_constraints, old, new))

    def _hard_constraints(self, pod: Pod) -> Constraints:
        labelled = label_set(pod.metadata.namespace, pod.metadata.labels)
        return self._constraints(labelled, pod, DO_NOT_SCHEDULE, "", "hard")

    def _constraints(self, labelled: LabelSet, pod: Pod, action: str, doing: str, kind: str) -> Constraints:
        own = pod.spec.topology_spread_constraints
        if not own:
            defaults = self._defaults[action]
            if not defaults:
                return NO_CONSTRAINTS
            workloads, owners = self.handle.cluster.workloads, pod.metadata.owner_references
            if not owners:  # such a pod is seldom like another
                return default_constraints(workloads, defaults, labelled, owners)
            return workloads.remembered(default_constraints, defaults, labelled, owners)
        try:
            return own_constraints(labelled, own, action)
        except SelectorError as error:
            found = error.text(self.handle.rules.wording)
            raise PluginError(f"{doing}obtaining pod's {kind} topology spread constraints: {found}") from error

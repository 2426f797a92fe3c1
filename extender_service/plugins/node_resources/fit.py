"""NodeResourcesFit: a pod goes only where what it requests is left; a strategy says which of those nodes is best."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.caches import cached
from extender_service.cluster.amounts.dimensions import POD_COUNT, UNOFFERED
from extender_service.cluster.amounts.footprint import reported_shape
from extender_service.cluster.amounts.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    RequestShape,
    node_allocatable,
    pod_requests,
    request_rules,
    request_shape,
    total_requests,
)
from extender_service.cluster.structures.extremes import lowest_of
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
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
from extender_service.framework.interface import MAX_NODE_SCORE, Filter, Needs, PreFilter, PreScore, Reach, Score
from extender_service.framework.status import Code, Rejections, Status
from extender_service.kube.parsing.resource_names import is_extended_resource, is_scalar_resource
from extender_service.kube.types.core import Node, Pod
from extender_service.plugins.node_resources.args import LEAST_ALLOCATED, MOST_ALLOCATED, NodeResourcesFitArgs
from extender_service.plugins.node_resources.usages import (
    Usages,
    WeighedPod,
    WeightedResource,
    usages,
    weighed_pod,
)
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own, took_room
from extender_service.plugins.shared.event_objects import old_and_new, only_new, only_old
from extender_service.plugins.shared.integer_division import divide_towards_zero
from extender_service.plugins.shared.shape import MAX_SHAPE_SCORE, broken_linear, percent_in_use

_CHECKED = "PreFilterNodeResourcesFit"
_WEIGHED = "PreScoreNodeResourcesFit"

# Up to which amounts a hundred times one, and one more, are together below 2**53.
EXACT_SHARES = 2**46

Strategy = Callable[[Usages], NDArray[np.int64]]


class NodeResourcesFit(PreFilter, Filter, PreScore, Score):
    """Rejects nodes without room for what the pod requests, and scores by how full the rest would be."""

    name: ClassVar[str] = "NodeResourcesFit"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NODE
    args_type: ClassVar[type | None] = NodeResourcesFitArgs
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(POD, ActionType.DELETE),
        ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),
    )

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._all_rules = handle.rules
        if handle.rules.fewer_events_wake:
            self.retry_on = _later_events(handle.rules)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._rules = request_rules(handle.rules)
        strategy = args.scoring_strategy
        self._resources = tuple(WeightedResource(resource.name, resource.weight) for resource in strategy.resources)
        self._strategy = _strategy(args)
        self._too_large_is_unresolvable = handle.rules.too_large_is_unresolvable

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        """Add up what the pod requests."""
        state[_CHECKED] = _checked(state.request_shape, self._ignored, self._ignored_groups)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes that lack something, with every resource that they lack as a reason."""
        checked, amounts = state.read(_CHECKED, "error reading")
        dimensions = _dimensions(checked, nodes)
        unoffered: list[NDArray[np.bool_] | None] = []
        if UNOFFERED in dimensions:
            unoffered = _lacking_unoffered(nodes, checked, dimensions, amounts)
            offered = [at for at, dimension in enumerate(dimensions) if dimension != UNOFFERED]
            dimensions, amounts = tuple([dimensions[at] for at in offered]), tuple([amounts[at] for at in offered])
        lacking = nodes.kept_by_room(_lacking, dimensions, amounts)
        if not unoffered and not np.count_nonzero(lacking):  # in a third of the time that any() takes
            return None
        rows = _in_their_order(lacking, unoffered) if unoffered else lacking
        reasons = ["Too many pods", *[f"Insufficient {resource}" for resource in checked]]
        too_large = None
        if self._too_large_is_unresolvable:
            # Sums that overflow may leave room for a request above what a node offers.
            too_large = np.logical_or.reduce(nodes.kept_by_facts(_too_large, dimensions, amounts) & lacking[1:])
            for row in {id(row): row for row in unoffered if row is not None}.values():
                too_large |= row
        return Rejections.per_reason(
            Code.UNSCHEDULABLE, list(zip(reasons, rows, strict=True)), len(nodes), unresolvable=too_large
        )

    def needs(self, state: CycleState, nodes: NodeView) -> Needs | None:
        """Return what the pod requests; None if no node offers some of it."""
        checked, amounts = state.read(_CHECKED, "error reading")
        dimensions = _dimensions(checked, nodes)
        return None if UNOFFERED in dimensions else Needs(dimensions, amounts)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Add up what the pod weighs in scoring."""
        state[_WEIGHED] = self._weighed(state, nodes)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score by the configured strategy."""
        weighed = state[_WEIGHED] if _WEIGHED in state else self._weighed(state, nodes)
        return nodes.kept_by_room(self._scores, weighed)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a pod that was deleted from a node, and for a node that has room for the pod while it is empty.

        In later releases, the node must have more room than before. A pod that requests less may help, too, and so may
        the pod itself.
        """
        if is_of_pod(event):
            return QueueingHint.queue_if(self._is_helped_by_pod(event, pod, old, new))
        before, node = old_and_new(Node, old, new)[0], only_new(Node, old, new)
        return QueueingHint.queue_if(
            self._fits(pod, node)
            and (before is None or not self._all_rules.hints_compare or self._has_more(pod, before, node))
        )

    def _is_helped_by_pod(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> bool:
        if is_own(event, pod, old, new):
            # To request more helps only a pod that is resized on its node.
            return bool(event.action & ActionType.UPDATE_POD_SCALE_DOWN)
        if not event.action & ActionType.UPDATE_POD_SCALE_DOWN:
            return took_room(only_old(Pod, old, new), self._all_rules)
        before, after = only_old(Pod, old, new), only_new(Pod, old, new)
        was, now, own = (reported_shape(each.spec, each.status, self._rules) for each in (before, after, pod))
        had, has = (dict(pod_requests(shape).amounts) for shape in (was, now))
        wanted = total_requests(own)
        return bool(after.spec.node_name) and any(
            amount and had.get(name, 0) > has.get(name, 0) for name, amount in wanted.items()
        )

    def _has_more(self, pod: Pod, before: Node, after: Node) -> bool:
        """Whether a node offers more pods than before, or more of what the pod requests."""
        had, has = (node_allocatable(node.status.allocatable) for node in (before, after))
        requested = dict(pod_requests(request_shape(pod.spec, self._rules)).amounts)
        return any(
            has.get(name, 0) > had.get(name, 0) for name in (PODS, *requested) if name == PODS or requested[name] > 0
        )

    def _fits(self, pod: Pod, node: Node) -> bool:
        """Whether a node offers what the pod requests; unlike Filter, this does not leave out ignored resources."""
        offered = node_allocatable(node.status.allocatable)
        if offered.get(PODS, 0) < 1:
            return False
        requested = pod_requests(request_shape(pod.spec, self._rules)).amounts
        return all(amount <= offered.get(name, 0) for name, amount in requested if amount > 0)

    def _scores(self, nodes: NodeView, pod: WeighedPod) -> NDArray[np.int64]:
        return self._strategy(usages(nodes, pod))

    def _weighed(self, state: CycleState, nodes: NodeView) -> WeighedPod:
        return weighed_pod(state, nodes, self._resources, nonzero=True)


def _later_events(rules: Rules) -> tuple[ClusterEvent, ...]:
    """Return the events after which pods are tried again from v1.32 on; which pods may shrink is a gate."""
    gone, smaller = ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN
    nodes = node_changes(rules, ActionType.UPDATE_NODE_ALLOCATABLE)
    if not rules.own_changes_named:
        return (ClusterEvent(POD, gone | smaller if rules.resized_containers else gone), nodes)
    shrunk = (ClusterEvent(ASSIGNED_POD, smaller), ClusterEvent(TARGET_POD, smaller))
    return (ClusterEvent(ASSIGNED_POD, gone), nodes, *(shrunk if rules.resized_containers else ()))


@cached("checked requests", most_entries=256, most_entry_bytes=10 << 10, most_size=512, size=attrgetter("size_bytes"))
def _checked(
    shape: RequestShape, ignored: frozenset[str], ignored_groups: frozenset[str]
) -> tuple[list[str], tuple[int, ...]]:
    """The requested resources that a node must have, in the order of their reasons; and how much of pods and of each of
    them. A sum that overflowed to less than nothing asks for nothing (SetMaxResource). Raises QuantityError."""
    requests = pod_requests(shape).amounts
    amount_of = dict(requests)
    checked = [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if amount_of.get(name, 0) > 0]
    # kube-scheduler reports scalar resources in random order; sorted by name, our reasons are always the same.
    checked += sorted(
        name
        for name, amount in requests
        if amount > 0
        and is_scalar_resource(name)
        and not (is_extended_resource(name) and (name in ignored or name.partition("/")[0] in ignored_groups))
    )
    return checked, (1, *[amount_of[name] for name in checked])


def _dimensions(checked: Sequence[str], nodes: NodeView) -> tuple[int, ...]:
    return (POD_COUNT, *[nodes.dimension(resource) for resource in checked])


def _lacking(nodes: NodeView, dimensions: tuple[int, ...], amounts: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return, as (resource, node), where less is left than the pod requests."""
    lacking: NDArray[np.bool_] = nodes.left_of(dimensions) < np.array(amounts, np.int64)[:, None]
    return lacking


def _lacking_unoffered(
    nodes: NodeView, checked: Sequence[str], dimensions: tuple[int, ...], amounts: tuple[int, ...]
) -> list[NDArray[np.bool_] | None]:
    """Return, by dimension, where less is left than the pod requests of a resource that no node offers; None for one
    that a node offers.

    That is everywhere, the same array for thousands of resources, except where requests add up to an int64 below 0:
    kube-scheduler finds room there.
    """
    everywhere = np.ones(len(nodes), np.bool_)
    lacking: list[NDArray[np.bool_] | None] = []
    for resource, dimension, amount in zip((PODS, *checked), dimensions, amounts, strict=True):
        if dimension != UNOFFERED:
            lacking.append(None)
        elif nodes.may_overflow(resource):
            lacking.append(-nodes.requested_of_unoffered(resource) < amount)
        else:
            lacking.append(everywhere)
    return lacking


def _in_their_order(
    offered: NDArray[np.bool_], unoffered: Sequence[NDArray[np.bool_] | None]
) -> list[NDArray[np.bool_]]:
    """Return the rows of both, in the order of the resources: `unoffered` has None for one of `offered`."""
    rows = iter(offered)
    return [next(rows) if row is None else row for row in unoffered]


def _too_large(nodes: NodeView, dimensions: tuple[int, ...], amounts: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return, as (resource, node), where the pod requests more than the node offers; how many pods it takes is not
    among the resources."""
    too_large: NDArray[np.bool_] = nodes.allocatable_of(dimensions[1:]) < np.array(amounts[1:], np.int64)[:, None]
    return too_large


def _strategy(args: NodeResourcesFitArgs) -> Strategy:
    strategy = args.scoring_strategy
    if strategy.type == LEAST_ALLOCATED:
        return least_allocated
    if strategy.type == MOST_ALLOCATED:
        return most_allocated
    assert strategy.requested_to_capacity_ratio is not None
    points = [(point.utilization, point.score) for point in strategy.requested_to_capacity_ratio.shape]
    by_percent = broken_linear([(percent, score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for percent, score in points])
    return lambda of_nodes: requested_to_capacity_ratio(by_percent, of_nodes)


def least_allocated(of_nodes: Usages) -> NDArray[np.int64]:
    """Score the weighted share that stays free; a resource that would be overfull counts as full."""
    used, offered = of_nodes.requested, of_nodes.offered
    if offered.highest <= EXACT_SHARES and lowest_of(used, axis=None, initial=0) >= 0:
        return _least_allocated_in_floats(of_nodes)
    free = np.where(used > offered.amounts, 0, offered.amounts - used)
    return _weighted_mean(of_nodes, divide_towards_zero(free * MAX_NODE_SCORE, offered.amounts))


def _least_allocated_in_floats(of_nodes: Usages) -> NDArray[np.int64]:
    """Return the same in a quarter of the time, where amounts are neither negative nor large.

    All integers in it are exact as float64. So is the rounded quotient of two of them: one that is not whole is further
    from the next whole number than a float64 is from the quotient, as both numbers together are below 2**53. What is
    used may be larger, and is above what is offered then, also when it is rounded.
    """
    offered, weights = of_nodes.offered, of_nodes.weights
    shares = of_nodes.requested.astype(np.float64)
    np.subtract(offered.floats, shares, out=shares)
    if lowest_of(shares, axis=None, initial=0) < 0:  # in a third of the time that the next line takes
        np.maximum(shares, 0.0, out=shares)
    shares *= MAX_NODE_SCORE
    shares /= offered.divisors
    np.floor(shares, out=shares)
    total_weight = sum(weights)
    if total_weight != len(weights):  # all have the weight 1 mostly
        shares *= np.array(weights, np.int64)[:, None]
    # No product of matrices, which may wait for threads. Two rows, as there mostly are, add up in a third of the time.
    mean: NDArray[np.float64] = np.add(*shares) if len(shares) == 2 else np.add.reduce(shares, axis=0)
    if not offered.all_count:
        mean /= np.maximum(np.array(weights, np.int64).dot(offered.counts), 1)
    elif total_weight == 2:  # in a third of the time
        mean *= 0.5
    else:
        mean /= total_weight
    return mean.astype(np.int64)  # towards zero


def most_allocated(of_nodes: Usages) -> NDArray[np.int64]:
    """Score the weighted share that would be in use; a resource that would be overfull counts as full."""
    offered = of_nodes.offered.amounts
    used = np.minimum(of_nodes.requested, offered)
    return _weighted_mean(of_nodes, divide_towards_zero(used * MAX_NODE_SCORE, offered))


def requested_to_capacity_ratio(by_percent: NDArray[np.int64], of_nodes: Usages) -> NDArray[np.int64]:
    """Score the share in use through a function of it; resources that score nothing do not count at all."""
    scores = by_percent[percent_in_use(of_nodes.requested, of_nodes.offered.amounts)]
    counts = of_nodes.offered.counts & (scores > 0)
    weights = np.array(of_nodes.weights, np.int64)
    mean = (weights @ (scores * counts)) / np.maximum(weights @ counts, 1)
    whole = np.floor(mean)
    rounded: NDArray[np.int64] = (whole + (mean - whole >= 0.5)).astype(np.int64)
    return rounded


def _weighted_mean(of_nodes: Usages, scores: NDArray[np.int64]) -> NDArray[np.int64]:
    weights, counts = np.array(of_nodes.weights, np.int64), of_nodes.offered.counts
    if of_nodes.offered.all_count:  # then the sum of the weights is the same on all nodes
        return divide_towards_zero(weights @ scores, weights.sum())
    return divide_towards_zero(weights @ (scores * counts), np.maximum(weights @ counts, 1))

"""Rules for the arguments of the in-tree plugins (kube-scheduler's validation_pluginargs.go)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from extender_service.config.core_types import TopologySpreadConstraint
from extender_service.config.plugin_args import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeLabelArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from extender_service.config.problems import Problem, duplicate, forbidden, invalid, not_supported, required
from extender_service.kube.parsing.label_syntax import label_key_faults
from extender_service.kube.parsing.selectors import SelectorError, parse_preferred_terms
from extender_service.kube.types import core as objects

_RATIO = "RequestedToCapacityRatio"
_STRATEGIES = ("LeastAllocated", "MostAllocated", _RATIO)
_DEFAULTING_TYPES = ("System", "List")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_MOST_PERCENT = 100
_HIGHEST_SHAPE_SCORE = 10
_IN_PERCENT = f"not in valid range [0, {_MOST_PERCENT}]"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_default_preemption(args: DefaultPreemptionArgs, path: str) -> Iterator[Problem]:
    """At least one node must be looked at."""
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= _MOST_PERCENT:
        yield invalid(percentage_path, percentage, _IN_PERCENT)
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def check_inter_pod_affinity(args: InterPodAffinityArgs, path: str) -> Iterator[Problem]:
    """The weight is that of a score."""
    if not 0 <= args.hard_pod_affinity_weight <= _MOST_PERCENT:
        yield invalid(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, _IN_PERCENT)


def check_node_affinity(args: NodeAffinityArgs, path: str) -> Iterator[Problem]:
    """The added affinity must be one that a pod may have."""
    if args.added_affinity is None:
        return
    required_terms = () if args.added_affinity.required is None else args.added_affinity.required.node_selector_terms
    # A term of any weight is read as a required one is.
    weighted = tuple(objects.PreferredSchedulingTerm(weight=1, preference=term) for term in required_terms)
    yield from _check_terms(weighted, f"{path}.addedAffinity.{_REQUIRED}.nodeSelectorTerms")
    yield from _check_terms(args.added_affinity.preferred, f"{path}.addedAffinity.{_PREFERRED}")


def _check_terms(terms: tuple[objects.PreferredSchedulingTerm, ...], path: str) -> Iterator[Problem]:
    try:
        parse_preferred_terms(terms)
    except SelectorError as error:
        for text in error.errors:
            place, _, message = text.partition(": ")
            yield Problem(f"{path}{place}", message)


def check_node_label(args: NodeLabelArgs, path: str) -> Iterator[Problem]:
    """No label can be wanted and unwanted (ValidateNodeLabelArgs of v1.22)."""
    yield from _check_conflict(args.present_labels, args.absent_labels, f"{path}.presentLabels", f"{path}.absentLabels")
    yield from _check_conflict(
        args.present_labels_preference,
        args.absent_labels_preference,
        f"{path}.presentLabelsPreference",
        f"{path}.absentLabelsPreference",
    )


def _check_conflict(
    present: Sequence[str], absent: Sequence[str], present_path: str, absent_path: str
) -> Iterator[Problem]:
    last_of = {label: index for index, label in enumerate(present)}
    for index, label in enumerate(absent):
        if label in last_of:
            yield invalid(f"{present_path}[{last_of[label]}]", label, f"conflict with {absent_path}[{index}]")


def check_balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: str) -> Iterator[Problem]:
    """Every resource counts once."""
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        if resource.name in seen:
            yield duplicate(f"{path}.resources[{index}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{path}.resources[{index}].weight", resource.weight, "must be 1")


def check_pod_topology_spread(args: PodTopologySpreadArgs, path: str) -> Iterator[Problem]:
    """Default constraints are as a pod's, but without a selector."""
    type_path = f"{path}.defaultingType"
    if args.defaulting_type not in _DEFAULTING_TYPES:
        yield not_supported(type_path, args.defaulting_type, _DEFAULTING_TYPES)
    elif args.defaulting_type == "System" and args.default_constraints:
        yield invalid(type_path, args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        here = f"{path}.defaultConstraints[{index}]"
        yield from _check_constraint(constraint, here)
        kind = (constraint.topology_key, constraint.when_unsatisfiable)
        if kind in seen:
            yield duplicate(here, f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}")
        seen.add(kind)


def _check_constraint(constraint: TopologySpreadConstraint, path: str) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from _check_label_key(constraint.topology_key, f"{path}.topologyKey")
    if not constraint.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif constraint.when_unsatisfiable not in _WHEN_UNSATISFIABLE:
        yield not_supported(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _WHEN_UNSATISFIABLE)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", detail)


def check_volume_binding(args: VolumeBindingArgs, path: str, *, shape_is_on: bool) -> Iterator[Problem]:
    """A shape needs its feature gate, VolumeCapacityPriority; without it even an empty one is an error."""
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, detail)
    if shape_is_on:
        yield from _check_shape(args.shape, f"{path}.shape")
    elif "shape" in args.model_fields_set:
        detail = "unexpected field `shape`, remove it or turn on the feature gate VolumeCapacityPriority"
        yield invalid(f"{path}.shape", [point.model_dump() for point in args.shape], detail)


def check_node_resources_fit(args: NodeResourcesFitArgs, path: str) -> Iterator[Problem]:
    """kube-scheduler checks these when it makes the plugin, so a profile without the plugin may hold anything."""
    for index, name in enumerate(args.ignored_resources):
        yield from _check_label_key(name, f"{path}.ignoredResources[{index}]")
    for index, group in enumerate(args.ignored_resource_groups):
        here = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield invalid(here, group, "resource group name can't contain '/'")
        yield from _check_label_key(group, here)
    strategy, here = args.scoring_strategy, f"{path}.scoringStrategy"
    if strategy.type not in _STRATEGIES:
        yield not_supported(f"{here}.type", strategy.type, _STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= _MOST_PERCENT:
            detail = f"resource weight of {resource.name} not in valid range (0, {_MOST_PERCENT}]"
            yield invalid(f"{here}.resources[{index}].weight", resource.weight, detail)
    if strategy.requested_to_capacity_ratio is not None:
        # The reference leaves requestedToCapacityRatio out of this path.
        yield from _check_shape(strategy.requested_to_capacity_ratio.shape, f"{here}.shape")
    elif strategy.type == _RATIO:
        # Here kube-scheduler ends with a nil pointer dereference.
        yield required(f"{here}.requestedToCapacityRatio", f"must have a shape for the type {_RATIO}")


def _check_shape(shape: Sequence[UtilizationShapePoint], path: str) -> Iterator[Problem]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            detail = "utilization values must be sorted in increasing order"
            yield invalid(f"{path}[{index}].utilization", shape[index].utilization, detail)
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= _MOST_PERCENT:
            yield invalid(f"{path}[{index}].utilization", point.utilization, _IN_PERCENT)
        if not 0 <= point.score <= _HIGHEST_SHAPE_SCORE:
            detail = f"not in valid range [0, {_HIGHEST_SHAPE_SCORE}]"
            yield invalid(f"{path}[{index}].score", point.score, detail)


def _check_label_key(key: str, path: str) -> Iterator[Problem]:
    return (invalid(path, key, fault) for fault in label_key_faults(key))


# By the name of the plugin, as far as the rules depend on nothing else.
CHECKS: dict[str, Callable[[Any, str], Iterator[Problem]]] = {
    "DefaultPreemption": check_default_preemption,
    "InterPodAffinity": check_inter_pod_affinity,
    "NodeAffinity": check_node_affinity,
    "NodeLabel": check_node_label,
    "NodeResourcesBalancedAllocation": check_balanced_allocation,
    "PodTopologySpread": check_pod_topology_spread,
}

"""The arguments of NodeResourcesFit and of NodeResourcesBalancedAllocation."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from extender_service.config.args import PluginArgs
from extender_service.config.model import Int64Field, Many, Model, OmitEmpty, OmitMissing, OptionalText, zero_means
from extender_service.config.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalid_label_key,
    not_supported,
    required,
)
from extender_service.config.rules import Rules
from extender_service.plugins.shared.shape import UtilizationShapePoint, check_shape

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)


class ResourceSpec(Model):
    """A resource and its weight in a score."""

    name: str = ""
    weight: Annotated[Int64Field, zero_means(1)] = 1


DEFAULT_RESOURCES = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class RequestedToCapacityRatioParam(Model):
    """A piecewise linear function of the utilization."""

    shape: Annotated[Many[UtilizationShapePoint], OmitEmpty] = ()


class ScoringStrategy(Model):
    """How NodeResourcesFit scores: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: OptionalText = ""
    resources: Annotated[Many[ResourceSpec], OmitEmpty, zero_means(DEFAULT_RESOURCES)] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: Annotated[RequestedToCapacityRatioParam | None, OmitMissing] = None


class NodeResourcesFitArgs(PluginArgs):
    """Which extended resources NodeResourcesFit does not check, and how it scores."""

    kind: Literal["NodeResourcesFitArgs"] = "NodeResourcesFitArgs"
    ignored_resources: Annotated[Many[str], OmitEmpty] = ()
    ignored_resource_groups: Annotated[Many[str], OmitEmpty] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST_ALLOCATED)

    checked_when_off: ClassVar[bool] = False

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check names, weights and the shape (ValidateNodeResourcesFitArgs)."""
        for index, name in enumerate(self.ignored_resources):
            yield from invalid_label_key(f"{path}.ignoredResources[{index}]", name, rules.wording)
        for index, group in enumerate(self.ignored_resource_groups):
            here = f"{path}.ignoredResourceGroups[{index}]"
            if "/" in group:
                yield invalid(here, group, "resource group name can't contain '/'")
            yield from invalid_label_key(here, group, rules.wording)
        yield from _check_strategy(self.scoring_strategy, f"{path}.scoringStrategy", rules)


def _check_strategy(strategy: ScoringStrategy, path: str, rules: Rules) -> Iterator[Problem]:
    if strategy.type not in _STRATEGIES:
        yield not_supported(f"{path}.type", strategy.type, _STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"{path}.resources[{index}].weight", resource.weight, detail)
    has_ratio, here = strategy.requested_to_capacity_ratio is not None, f"{path}.requestedToCapacityRatio"
    if has_ratio and strategy.type != REQUESTED_TO_CAPACITY_RATIO and rules.shape_for_its_type_only:
        yield forbidden(here, f"must be nil when type is not {REQUESTED_TO_CAPACITY_RATIO}")
    elif strategy.requested_to_capacity_ratio is not None:
        # At first, the reference leaves requestedToCapacityRatio out of this path.
        place = here if rules.shape_for_its_type_only else path
        yield from check_shape(strategy.requested_to_capacity_ratio.shape, f"{place}.shape", rules)
    elif strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        # Before 1.36, kube-scheduler ends here with a nil pointer dereference.
        yield required(here, f"must be specified when type is {REQUESTED_TO_CAPACITY_RATIO}")


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Which resources NodeResourcesBalancedAllocation balances."""

    kind: Literal["NodeResourcesBalancedAllocationArgs"] = "NodeResourcesBalancedAllocationArgs"
    resources: Annotated[Many[ResourceSpec], OmitEmpty, zero_means(DEFAULT_RESOURCES)] = DEFAULT_RESOURCES

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that every resource counts once (ValidateNodeResourcesBalancedAllocationArgs)."""
        seen: set[str] = set()
        for index, resource in enumerate(self.resources):
            if resource.name in seen:
                yield duplicate(f"{path}.resources[{index}].name", resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(f"{path}.resources[{index}].weight", resource.weight, "must be 1")

"""The arguments of the in-tree plugins (kubescheduler.config.k8s.io/v1, types_pluginargs.go), with their defaults."""

from typing import Annotated, Any, Literal

import msgspec
from pydantic import PlainSerializer, PlainValidator

from extender_service.config import core_types
from extender_service.config.core_types import TopologySpreadConstraint
from extender_service.config.model import Int32, Int64, Many, Model, OmitEmpty, OmitMissing, OptionalText, zero_means
from extender_service.kube.types import core as objects

ApiVersion = Literal["kubescheduler.config.k8s.io/v1"]
API_VERSION: ApiVersion = "kubescheduler.config.k8s.io/v1"


class PluginArgs(Model):
    """Base of the arguments. In a file, apiVersion and kind may be left out."""

    api_version: ApiVersion = API_VERSION


class DefaultPreemptionArgs(PluginArgs):
    """How many nodes DefaultPreemption looks at: the larger of a percentage and a number."""

    kind: Literal["DefaultPreemptionArgs"] = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(PluginArgs):
    """What InterPodAffinity's score makes of the affinity of pods that run already."""

    kind: Literal["InterPodAffinityArgs"] = "InterPodAffinityArgs"
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class ResourceSpec(Model):
    """A resource and its weight in a score."""

    name: str = ""
    weight: Annotated[Int64, zero_means(1)] = 1


DEFAULT_RESOURCES = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Model):
    """A point of a function from utilization in percent to a score of 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


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
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Which resources NodeResourcesBalancedAllocation balances."""

    kind: Literal["NodeResourcesBalancedAllocationArgs"] = "NodeResourcesBalancedAllocationArgs"
    resources: Annotated[Many[ResourceSpec], OmitEmpty, zero_means(DEFAULT_RESOURCES)] = DEFAULT_RESOURCES


class PodTopologySpreadArgs(PluginArgs):
    """Constraints for pods that have none: the system's (defaultingType System) or those listed (List)."""

    kind: Literal["PodTopologySpreadArgs"] = "PodTopologySpreadArgs"
    default_constraints: Annotated[Many[TopologySpreadConstraint], OmitEmpty] = ()
    defaulting_type: Annotated[str, zero_means("System")] = "System"


class VolumeBindingArgs(PluginArgs):
    """How long volumes may take to bind, and how their utilization is scored (gate VolumeCapacityPriority)."""

    kind: Literal["VolumeBindingArgs"] = "VolumeBindingArgs"
    bind_timeout_seconds: Int64 = 600
    shape: Annotated[Many[UtilizationShapePoint], OmitEmpty] = ()


def _read_affinity(value: object) -> objects.NodeAffinity | None:
    if value is None or isinstance(value, objects.NodeAffinity):
        return value
    written = core_types.NodeAffinity.model_validate(value, by_name=False)
    return msgspec.convert(written.model_dump(by_alias=True), objects.NodeAffinity)


def _print_affinity(affinity: objects.NodeAffinity | None) -> dict[str, Any] | None:
    if affinity is None:
        return None
    return core_types.NodeAffinity.model_validate(msgspec.to_builtins(affinity)).model_dump(by_alias=True)


class NodeAffinityArgs(PluginArgs):
    """An affinity that every pod of the profile has besides its own; with None there is none."""

    kind: Literal["NodeAffinityArgs"] = "NodeAffinityArgs"
    added_affinity: Annotated[
        objects.NodeAffinity | None, PlainValidator(_read_affinity), PlainSerializer(_print_affinity), OmitMissing
    ] = None


class NodeLabelArgs(PluginArgs):
    """Keys of labels that a node must have or must not have, and of those that make it better (v1beta1's type)."""

    kind: Literal["NodeLabelArgs"] = "NodeLabelArgs"
    present_labels: Annotated[Many[str], OmitEmpty] = ()
    absent_labels: Annotated[Many[str], OmitEmpty] = ()
    present_labels_preference: Annotated[Many[str], OmitEmpty] = ()
    absent_labels_preference: Annotated[Many[str], OmitEmpty] = ()


# By the name of the plugin.
ARGS_TYPES: dict[str, type[PluginArgs]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeLabel": NodeLabelArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}

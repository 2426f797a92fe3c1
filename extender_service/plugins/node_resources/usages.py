"""Scoring by the share of each resource that would be in use (noderesources/resource_allocation.go)."""

from operator import attrgetter
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import cached
from extender_service.cluster.amounts.dimensions import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES
from extender_service.cluster.amounts.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    RequestShape,
    scored_amounts,
    total_requests,
    whole_amount,
)
from extender_service.cluster.structures.extremes import highest_of
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.kube.parsing.resource_names import is_scalar_resource


class WeightedResource(msgspec.Struct, frozen=True, cache_hash=True):
    """A resource and what it counts for beside the others."""

    name: str
    weight: int


class Offered(msgspec.Struct):
    """What the nodes of a view offer of some resources, as arrays of (resource, node).

    - `counts`: where a resource takes part in scoring, as the node offers any of it
    - `all_count`: whether all do everywhere, and there is one
    - `amounts`: what is offered, 1 where nothing is
    - `highest`: the highest of the amounts; 0 if there is none
    - `floats`: what is offered, 0 where nothing is, and `divisors`: the amounts, as float64
    """

    counts: NDArray[np.bool_]
    all_count: bool
    amounts: NDArray[np.int64]
    highest: int
    floats: NDArray[np.float64]
    divisors: NDArray[np.float64]

    @classmethod
    def of(cls, allocatable: NDArray[np.int64]) -> Self:
        """Return this of what nodes have as allocatable."""
        counts = allocatable != 0
        all_count = 0 < np.count_nonzero(counts) == counts.size
        amounts = allocatable if all_count else np.where(counts, allocatable, 1)
        floats = allocatable.astype(np.float64)
        divisors = floats if all_count else amounts.astype(np.float64)
        return cls(counts, all_count, amounts, int(highest_of(amounts, axis=None, initial=0)), floats, divisors)


class Usages(msgspec.Struct):
    """Resources on the nodes of a view; `weights` are by resource.

    `requested` is what would be in use with the pod there, of what is `offered`, as (resource, node). Amounts beyond
    int64 wrap, as in Go, and may be negative.
    """

    weights: tuple[int, ...]
    requested: NDArray[np.int64]
    offered: Offered


class WeighedPod(msgspec.Struct, frozen=True, cache_hash=True):
    """What a pod weighs: the resources that may take part in its score, with what it adds to them on a node.

    `weights` and `amounts` are by resource, as are the dimensions of what nodes offer and of what pods take of it.
    """

    weights: tuple[int, ...]
    amounts: tuple[int, ...]
    offered: tuple[int, ...]
    taken: tuple[int, ...]


NOTHING_WEIGHED = WeighedPod((), (), (), ())


def requests_any(state: CycleState, resources: tuple[WeightedResource, ...]) -> bool:
    """Return whether the pod requests any of these resources, also one that takes no part in scores."""
    totals = total_requests(state.request_shape, fill_missing=False)
    return any(whole_amount(resource.name, totals.get(resource.name, 0)) for resource in resources)


def _counts(name: str, amount: int) -> bool:
    return amount != 0 if is_scalar_resource(name) else name in (CPU, MEMORY, EPHEMERAL_STORAGE)


def weighed_pod(
    state: CycleState, nodes: NodeView, resources: tuple[WeightedResource, ...], *, nonzero: bool
) -> WeighedPod:
    """Return what the pod weighs on these nodes by the resources that count: of a scalar resource only if it requests
    any.

    With `nonzero`, containers that request no cpu or memory count with a default.
    """
    dimensions = tuple([nodes.dimension(resource.name) for resource in resources])
    return _weighed(state.request_shape, resources, dimensions, nonzero)


# Pods of one template weigh the same.
@cached("weighed pods", most_entries=512, most_entry_bytes=8 << 10, most_size=512, size=attrgetter("size_bytes"))
def _weighed(
    shape: RequestShape,
    resources: tuple[WeightedResource, ...],
    dimensions: tuple[int, ...],
    nonzero: bool,  # noqa: FBT001
) -> WeighedPod:
    requested = scored_amounts(shape, fill_missing=nonzero)
    in_scoring = {CPU: NONZERO_CPU_MILLI, MEMORY: NONZERO_MEMORY_BYTES} if nonzero else {}
    counted = [
        (resource.weight, amount, dimension, in_scoring.get(resource.name, dimension))
        for resource, dimension in zip(resources, dimensions, strict=True)
        if _counts(resource.name, amount := requested.get(resource.name, 0))
    ]
    return WeighedPod(*zip(*counted, strict=True)) if counted else NOTHING_WEIGHED


def usages(nodes: NodeView, pod: WeighedPod) -> Usages:
    """Return what would be in use on each node with the pod there."""
    amounts = np.array(pod.amounts, np.int64)[:, None]
    offered = nodes.remembered(_offered, pod.offered)
    return Usages(pod.weights, nodes.requested_of(pod.taken) + amounts, offered)


def _offered(nodes: NodeView, dimensions: tuple[int, ...]) -> Offered:
    return Offered.of(nodes.allocatable_of(dimensions))

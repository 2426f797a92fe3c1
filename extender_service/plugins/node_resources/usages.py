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
    total_requests,
    whole_amount,
)
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.kube.parsing.resource_names import is_scalar_resource

# The method `max` calls a function in Python first.
_highest = np.maximum.reduce


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
        return cls(counts, all_count, amounts, int(_highest(amounts, axis=None, initial=0)), floats, divisors)


class Usages(msgspec.Struct):
    """Resources on the nodes of a view; `weights` are by resource.

    `requested` is what would be in use with the pod there, of what is `offered`, as (resource, node). Amounts beyond
    int64 wrap, as in Go, and may be negative.
    """

    weights: NDArray[np.int64]
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


Requests = tuple[tuple[WeightedResource, int], ...]
"""What a pod requests of the resources that take part in its score."""

# Pods of one template request the same.


def scored_requests(state: CycleState, resources: tuple[WeightedResource, ...], *, nonzero: bool) -> Requests:
    """Return what the pod requests of each resource that counts: of a scalar resource only if it requests any.

    With `nonzero`, containers that request no cpu or memory count with a default.
    """
    return _scored_requests(state.request_shape, resources, nonzero)


@cached("scored requests", most_entries=512, most_entry_bytes=6 << 10, most_size=512, size=attrgetter("size_bytes"))
def _scored_requests(shape: RequestShape, resources: tuple[WeightedResource, ...], nonzero: bool) -> Requests:  # noqa: FBT001
    totals = total_requests(shape, fill_missing=nonzero)
    return tuple(
        [
            (resource, amount)
            for resource in resources
            if _counts(resource.name, amount := whole_amount(resource.name, totals.get(resource.name, 0)))
        ]
    )


def requests_any(state: CycleState, resources: tuple[WeightedResource, ...]) -> bool:
    """Return whether the pod requests any of these resources, also one that takes no part in scores."""
    totals = total_requests(state.request_shape, fill_missing=False)
    return any(whole_amount(resource.name, totals.get(resource.name, 0)) for resource in resources)


def _counts(name: str, amount: int) -> bool:
    return amount != 0 if is_scalar_resource(name) else name in (CPU, MEMORY, EPHEMERAL_STORAGE)


def weighed_pod(nodes: NodeView, requests: Requests, *, nonzero: bool) -> WeighedPod:
    """Return what the pod weighs on these nodes; `requests` must have been made with the same `nonzero`."""
    return _weighed(requests, tuple([nodes.dimension(resource.name) for resource, _ in requests]), nonzero)


@cached("weighed pods", most_entries=256, most_entry_bytes=6 << 10, most_size=16)
def _weighed(requests: Requests, dimensions: tuple[int, ...], nonzero: bool) -> WeighedPod:  # noqa: FBT001
    in_scoring = {CPU: NONZERO_CPU_MILLI, MEMORY: NONZERO_MEMORY_BYTES} if nonzero else {}
    return WeighedPod(
        tuple([resource.weight for resource, _ in requests]),
        tuple([amount for _, amount in requests]),
        dimensions,
        tuple(
            [
                in_scoring.get(resource.name, dimension)
                for (resource, _), dimension in zip(requests, dimensions, strict=True)
            ]
        ),
    )


def usages(nodes: NodeView, pod: WeighedPod) -> Usages:
    """Return what would be in use on each node with the pod there."""
    amounts = np.array(pod.amounts, np.int64)[:, None]
    offered = nodes.remembered(_offered, pod.offered)
    return Usages(np.array(pod.weights, np.int64), nodes.requested_of(pod.taken) + amounts, offered)


def _offered(nodes: NodeView, dimensions: tuple[int, ...]) -> Offered:
    return Offered.of(nodes.allocatable_of(dimensions))

"""Scoring by the share of each resource that would be in use (noderesources/resource_allocation.go)."""

from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

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


class WeightedResource(msgspec.Struct, frozen=True, cache_hash=True):
    """A resource and what it counts for beside the others."""

    name: str
    weight: int


class Usages(msgspec.Struct):
    """Resources on the nodes of a view, as arrays of (resource, node); `counts` tells where one takes part in scoring.

    `requested` is what would be in use with the pod there, of `allocatable` (at least 1); `weights` are by resource.
    """

    weights: NDArray[np.int64]
    counts: NDArray[np.bool_]
    requested: NDArray[np.int64]
    allocatable: NDArray[np.int64]


class WeighedPod(msgspec.Struct, frozen=True, cache_hash=True):
    """What a pod weighs: the resources that may take part in its score, with what it adds to them on a node.

    `weights` and `amounts` are by resource, as are the dimensions of what nodes offer and of what pods take of it.
    """

    weights: tuple[int, ...]
    amounts: tuple[int, ...]
    offered: tuple[int, ...]
    taken: tuple[int, ...]


def pod_amounts(state: CycleState, resources: tuple[WeightedResource, ...], *, nonzero: bool) -> tuple[int, ...]:
    """Return what the pod requests of each resource; with `nonzero`, silent containers count with a default."""
    return _amounts(state.request_shape, resources, nonzero)


# Pods of one template ask for the same.


@lru_cache(maxsize=256)
def _amounts(shape: RequestShape, resources: tuple[WeightedResource, ...], nonzero: bool) -> tuple[int, ...]:  # noqa: FBT001
    totals = total_requests(shape, fill_missing=nonzero)
    return tuple([whole_amount(resource.name, totals.get(resource.name, 0)) for resource in resources])


def weighed_pod(
    nodes: NodeView, resources: tuple[WeightedResource, ...], amounts: tuple[int, ...], *, nonzero: bool
) -> WeighedPod:
    """Pick the resources that count at all: a scalar resource only if the pod requests it."""
    picked = _picked(resources, amounts)
    return _weighed(picked, tuple([nodes.dimension(resource.name) for resource, _ in picked]), nonzero)


_Picked = tuple[tuple[WeightedResource, int], ...]


@lru_cache(maxsize=256)
def _picked(resources: tuple[WeightedResource, ...], amounts: tuple[int, ...]) -> _Picked:
    """Each resource that counts, and what the pod requests of it."""
    return tuple(
        [
            (resource, amount)
            for resource, amount in zip(resources, amounts, strict=True)
            if (amount != 0 if is_scalar_resource(resource.name) else resource.name in (CPU, MEMORY, EPHEMERAL_STORAGE))
        ]
    )


@lru_cache(maxsize=256)
def _weighed(picked: _Picked, dimensions: tuple[int, ...], nonzero: bool) -> WeighedPod:  # noqa: FBT001
    in_scoring = {CPU: NONZERO_CPU_MILLI, MEMORY: NONZERO_MEMORY_BYTES} if nonzero else {}
    return WeighedPod(
        tuple([resource.weight for resource, _ in picked]),
        tuple([amount for _, amount in picked]),
        dimensions,
        tuple(
            [
                in_scoring.get(resource.name, dimension)
                for (resource, _), dimension in zip(picked, dimensions, strict=True)
            ]
        ),
    )


def usages(nodes: NodeView, pod: WeighedPod) -> Usages:
    """Return what would be in use on each node with the pod there."""
    offered = nodes.allocatable_of(pod.offered)
    weights, amounts = _arrays(pod)
    return Usages(weights, offered != 0, nodes.requested_of(pod.taken) + amounts, np.maximum(offered, 1))


@lru_cache(maxsize=256)
def _arrays(pod: WeighedPod) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Weights by resource, and what is added as (resource, 1)."""
    return np.array(pod.weights, np.int64), np.array(pod.amounts, np.int64)[:, None]

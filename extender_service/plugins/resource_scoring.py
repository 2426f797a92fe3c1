"""Scoring by the share of each resource that would be in use (noderesources/resource_allocation.go)."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.dimensions import NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES
from extender_service.cluster.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    total_requests,
    whole_amount,
)
from extender_service.cluster.view import NodeView
from extender_service.framework.interface import CycleState
from extender_service.kube.resource_names import is_scalar_resource


class WeightedResource(msgspec.Struct, frozen=True):
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


def pod_amounts(state: CycleState, resources: Sequence[WeightedResource], *, nonzero: bool) -> list[int]:
    """Return what the pod requests of each resource; with `nonzero`, silent containers count with a default."""
    totals = total_requests(state.request_shape, fill_missing=nonzero)
    return [whole_amount(resource.name, totals.get(resource.name, 0)) for resource in resources]


def weighed_pod(
    nodes: NodeView, resources: Sequence[WeightedResource], amounts: Sequence[int], *, nonzero: bool
) -> WeighedPod:
    """Pick the resources that count at all: a scalar resource only if the pod requests it."""
    picked = [
        (resource, amount, nodes.dimension(resource.name))
        for resource, amount in zip(resources, amounts, strict=True)
        if (amount != 0 if is_scalar_resource(resource.name) else resource.name in (CPU, MEMORY, EPHEMERAL_STORAGE))
    ]
    in_scoring = {CPU: NONZERO_CPU_MILLI, MEMORY: NONZERO_MEMORY_BYTES} if nonzero else {}
    return WeighedPod(
        tuple([resource.weight for resource, _, _ in picked]),
        tuple([amount for _, amount, _ in picked]),
        tuple([dimension for _, _, dimension in picked]),
        tuple([in_scoring.get(resource.name, dimension) for resource, _, dimension in picked]),
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

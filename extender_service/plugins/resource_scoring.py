"""Scoring by the share of each resource that would be in use (noderesources/resource_allocation.go)."""

from collections.abc import Iterator, Sequence

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


class Usage(msgspec.Struct):
    """One resource, on every node of a view: `counts` tells where it takes part in the score.

    `requested` is what would be in use with the pod there, of `allocatable` (at least 1).
    """

    weight: int
    counts: NDArray[np.bool_]
    requested: NDArray[np.int64]
    allocatable: NDArray[np.int64]


def pod_amounts(state: CycleState, resources: Sequence[WeightedResource], *, nonzero: bool) -> list[int]:
    """Return what the pod requests of each resource; with `nonzero`, silent containers count with a default."""
    totals = total_requests(state.request_shape, fill_missing=nonzero)
    return [whole_amount(resource.name, totals.get(resource.name, 0)) for resource in resources]


def usages(
    nodes: NodeView, resources: Sequence[WeightedResource], amounts: Sequence[int], *, nonzero: bool
) -> Iterator[Usage]:
    """Iterate over the resources that take part somewhere: a scalar resource only if the pod requests it."""
    for resource, amount in zip(resources, amounts, strict=True):
        name = resource.name
        is_scalar = is_scalar_resource(name)
        if (is_scalar and amount == 0) or not (is_scalar or name in (CPU, MEMORY, EPHEMERAL_STORAGE)):
            continue
        dimension = nodes.dimension(name)
        used = {CPU: NONZERO_CPU_MILLI, MEMORY: NONZERO_MEMORY_BYTES}.get(name, dimension) if nonzero else dimension
        allocatable = nodes.allocatable(dimension)
        counts = allocatable != 0
        if counts.any():
            yield Usage(resource.weight, counts, nodes.requested(used) + amount, np.where(counts, allocatable, 1))

"""Scores nodes by how full the volumes would be that a pod's claims are bound to (plugins/volumebinding/scorer.go)."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.parsing.quantities import parse_quantity, whole_value
from extender_service.kube.types.storage import STORAGE, PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.shared.shape import percent_in_use
from extender_service.plugins.volume_binding.provisioning import capacity_bytes, storage_class_of
from extender_service.plugins.volume_binding.static_binding import StaticBindings


def utilization_score(bindings: StaticBindings, by_percent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each node the mean, over the storage classes of its volumes, of a function of the share asked for.

    `by_percent` are the function's values at 0 to 100.
    """
    size = len(bindings.chosen[0])
    total, classes = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for class_name in {volume.spec.storage_class_name for volume in bindings.volumes}:
        asked, offered = _amounts(bindings, class_name, size)
        percent = _percent(asked, offered)
        takes_part = np.zeros(size, np.bool_)
        for chosen in bindings.chosen:
            takes_part |= _is_of_class(bindings.volumes, class_name)[chosen]
        total += np.where(takes_part, by_percent[percent], 0)
        classes += takes_part
    mean = total / np.maximum(classes, 1)
    scores: NDArray[np.int64] = np.floor(mean + 0.5).astype(np.int64)
    return scores


def capacity_score(
    nodes: NodeView, storage: Storage, claims: Iterable[PersistentVolumeClaim], by_percent: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each node the mean, over the storage classes of the claims that volumes are to be made for, of a
    function of the share asked for; 0 where no class publishes its capacity.

    Raises PluginError for a claim without a storage class.
    """
    asked: dict[str, NDArray[np.int64]] = {}
    offered: dict[str, NDArray[np.int64]] = {}
    for claim in claims:
        found = capacity_bytes(nodes, storage, claim, storage_class_of(storage, claim))
        if found is not None:
            # As in the reference, what is left for the last claim of a class counts.
            offered[claim.class_name] = found
            before = asked.get(claim.class_name, np.zeros(len(nodes), np.int64))
            asked[claim.class_name] = before + whole_value(parse_quantity(claim.request or 0))
    if not asked:
        return np.zeros(len(nodes), np.int64)
    total = sum((by_percent[_percent(asked[name], offered[name])] for name in asked), np.zeros(len(nodes), np.int64))
    scores: NDArray[np.int64] = np.floor(total / len(asked) + 0.5).astype(np.int64)
    return scores


def _percent(asked: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
    nothing = offered == 0
    return np.where(nothing, 100, percent_in_use(asked, np.where(nothing, 1, offered)))


def _amounts(bindings: StaticBindings, class_name: str, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, in bytes, what claims ask of a node's volumes of a class, and what these have."""
    in_class = _is_of_class(bindings.volumes, class_name)
    capacities = np.array([*(_capacity_bytes(volume) for volume in bindings.volumes), 0], np.int64) * in_class
    asked, offered = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for claim, chosen in zip(bindings.claims, bindings.chosen, strict=True):
        asked += in_class[chosen] * whole_value(parse_quantity(claim.request or 0))
        offered += capacities[chosen]
    return asked, offered


def _is_of_class(volumes: Sequence[PersistentVolume], class_name: str) -> NDArray[np.bool_]:
    """Return for each volume whether it is of a class; the last entry, which UNBOUND picks, is for no volume."""
    return np.array([*(volume.spec.storage_class_name == class_name for volume in volumes), False], np.bool_)


def _capacity_bytes(volume: PersistentVolume) -> int:
    return whole_value(parse_quantity(volume.spec.capacity.get(STORAGE, 0)))

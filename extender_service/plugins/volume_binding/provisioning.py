"""Where volumes can be made for claims (checkVolumeProvisions in plugins/volumebinding/binder.go)."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import Capacity, Storage
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.parsing.quantities import parse_quantity, whole_value
from extender_service.kube.parsing.selectors import Selector, SelectorError, parse_label_selector
from extender_service.kube.types.core import LabelSelector, SelectorRequirement
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.storage import PersistentVolumeClaim, StorageClass, TopologyTerm
from extender_service.plugins.volume_binding.reach import any_selects, first_selecting

Mask = NDArray[np.bool_]

# A provisioner that makes no volumes.
_NONE = "kubernetes.io/no-provisioner"


def storage_class_of(storage: Storage, claim: PersistentVolumeClaim) -> StorageClass:
    """Return the class that makes a volume for a claim. Raises PluginError where there is none."""
    if not claim.class_name:
        raise PluginError(f'no class for claim "{"/".join(key_of(claim))}"')
    storage_class = storage.storage_class(claim.class_name)
    if storage_class is None:
        raise PluginError(f'failed to find storage class "{claim.class_name}"')
    return storage_class


def can_make(nodes: NodeView, storage_class: StorageClass) -> Mask:
    """Return for each node whether the topologies of a class allow volumes there; space is not checked."""
    if storage_class.provisioner in ("", _NONE):
        return np.zeros(len(nodes), np.bool_)
    if not storage_class.allowed_topologies:
        return np.ones(len(nodes), np.bool_)
    return any_selects(
        nodes, [selector for term in storage_class.allowed_topologies if (selector := _selector(term)) is not None]
    )


def has_space(nodes: NodeView, storage: Storage, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Mask:
    """Return for each node whether there is space for a claim; everywhere if its driver publishes no capacity."""
    enough = _enough(storage, claim, storage_class)
    if enough is None:
        return np.ones(len(nodes), np.bool_)
    return any_selects(nodes, [capacity.topology for capacity in enough])


def capacity_bytes(
    nodes: NodeView, storage: Storage, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> NDArray[np.int64] | None:
    """Return for each node how much there is, in bytes, of what has space for a claim: 0 where nothing has.

    None if the driver publishes no capacity.
    """
    enough = _enough(storage, claim, storage_class)
    if enough is None:
        return None
    first = first_selecting(nodes, [capacity.topology for capacity in enough])
    return np.array([*(capacity.capacity_bytes for capacity in enough), 0], np.int64)[first]


def _enough(storage: Storage, claim: PersistentVolumeClaim, storage_class: StorageClass) -> list[Capacity] | None:
    """Return the capacities that have space for a claim; None if its driver publishes none."""
    driver = storage.driver(storage_class.provisioner)
    if claim.request is None or driver is None or not driver.spec.storage_capacity:
        return None
    wanted_bytes = whole_value(parse_quantity(claim.request))
    capacities = storage.capacities(storage_class.metadata.name)
    return [capacity for capacity in capacities if capacity.most_bytes >= wanted_bytes]


def _selector(term: TopologyTerm) -> Selector | None:
    """Parse a term; an empty or malformed one selects nothing (MatchTopologySelectorTerms)."""
    if not term.match_label_expressions:
        return None
    expressions = [SelectorRequirement(item.key, "In", item.values) for item in term.match_label_expressions]
    try:
        return parse_label_selector(LabelSelector(match_expressions=tuple(expressions)))
    except SelectorError:
        return None

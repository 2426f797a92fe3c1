"""Which pods count as the same application if the pod has no constraints of its own (plugins/helper/spread.go)."""

from collections.abc import Iterable

from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.kube.parsing.selectors import (
    EVERYTHING,
    Selector,
    SelectorError,
    label_set_selector,
    parse_label_selector,
)
from extender_service.kube.types.core import OwnerReference
from extender_service.kube.types.workloads import ReplicaSet, ReplicationController, StatefulSet


def default_selector(workloads: Workloads, label_set: LabelSet, owners: Iterable[OwnerReference]) -> Selector:
    """Select what the Services and the controller of pods with these labels and owners select together; everything, if
    they have none of them."""
    namespace = label_set.namespace
    labels: dict[str, str] = {}
    for selector in workloads.service_selectors(namespace, label_set.labels):
        labels.update(selector)
    owner = next((owner for owner in owners if owner.controller), OwnerReference())
    own = EVERYTHING
    match (owner.api_version, owner.kind):
        case ("v1" | "/v1", "ReplicationController"):  # schema.ParseGroupVersion reads both as version v1 of no group
            controller = workloads.get(ReplicationController, namespace, owner.name)
            labels.update({} if controller is None else controller.spec.selector)
        case ("apps/v1", "ReplicaSet"):
            own = _selector_of(workloads.get(ReplicaSet, namespace, owner.name))
        case ("apps/v1", "StatefulSet"):
            own = _selector_of(workloads.get(StatefulSet, namespace, owner.name))
    of_labels = label_set_selector(labels).requirements
    return Selector.of([*of_labels, *own.requirements]) if of_labels else Selector(own.requirements)


def _selector_of(controller: ReplicaSet | StatefulSet | None) -> Selector:
    if controller is None:
        return EVERYTHING
    try:
        return parse_label_selector(controller.spec.selector)
    except SelectorError:
        return EVERYTHING

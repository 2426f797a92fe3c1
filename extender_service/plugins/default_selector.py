"""Which pods count as the same application, where a pod itself does not say (plugins/helper/spread.go)."""

from extender_service.cluster.workloads import Workloads
from extender_service.kube.objects import OwnerReference, Pod
from extender_service.kube.selectors import Selector, SelectorError, label_set_selector, parse_label_selector
from extender_service.kube.workloads import ReplicaSet, ReplicationController, StatefulSet

_SETS: dict[tuple[str, str], type[ReplicaSet] | type[StatefulSet]] = {
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def default_selector(pod: Pod, workloads: Workloads) -> Selector:
    """Select what the pod's Services and its controller select together; everything, if it has none of them."""
    namespace = pod.metadata.namespace
    labels: dict[str, str] = {}
    for selector in workloads.service_selectors(namespace, pod.metadata.labels):
        labels.update(selector)
    owner = next((owner for owner in pod.metadata.owner_references if owner.controller), OwnerReference())
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = workloads.get(ReplicationController, namespace, owner.name)
        if controller is not None:
            labels.update(controller.spec.selector)
        return label_set_selector(labels)
    services = label_set_selector(labels)
    kind = _SETS.get((owner.api_version, owner.kind))
    found = None if kind is None else workloads.get(kind, namespace, owner.name)
    if found is None:
        return services
    try:
        own = parse_label_selector(found.spec.selector)
    except SelectorError:
        return services
    return Selector.of([*services.requirements, *own.requirements])

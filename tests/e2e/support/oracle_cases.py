"""Cases for the oracle, which runs kube-scheduler's own plugins, from what the API server holds."""

from collections.abc import Mapping, Sequence

import msgspec

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object

# What of the cluster the plugins read, besides pods, by API version.
KINDS = {
    "v1": ("Node", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim"),
    "apps/v1": ("ReplicaSet",),
    "policy/v1": ("PodDisruptionBudget",),
    "storage.k8s.io/v1": ("CSINode",),
}


def surroundings(api: API, kinds: Mapping[str, Sequence[str]] = KINDS) -> list[msgspec.Raw]:
    """All objects of these kinds by API version, each encoded once for many cases."""
    return [
        msgspec.Raw(msgspec.json.encode(without_history(found)))
        for version, of_version in kinds.items()
        for kind in of_version
        for found in api.list_all(kind, api_version=version)
    ]


def case(name: str, pod: Object, others: Sequence[Object], around: Sequence[msgspec.Raw]) -> bytes:
    """A pod to schedule, with the default configuration, where these other pods and objects are."""
    return msgspec.json.encode({"name": name, "pod": pod, "objects": [*around, *others]})


def without_history(found: Object) -> Object:
    """An object without managedFields, which are the larger part of it."""
    metadata = {field: value for field, value in found["metadata"].items() if field != "managedFields"}
    return {**found, "metadata": metadata}

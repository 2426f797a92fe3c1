"""Scenarios as data: steps, each of which changes the cluster and ends when the scheduler is quiet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.volume_controllers import Provisioner

# Changes the cluster. One cause per step: what two changes at once lead to depends on which watch is faster.
Step = Callable[[API], None]

# The API version of each kind that scenarios name, other than v1.
_API_VERSIONS = {
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
}
_NAMESPACED = {"Pod", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"}


class Scenario(NamedTuple):
    """Steps, which start in a cluster without nodes and pods.

    `provisioner` is set where volumes matter: the cluster's volume controllers run then.
    """

    steps: Sequence[Step]
    provisioner: Provisioner | None = None


def create(*objects: Object) -> Step:
    """Create objects, one after the other."""

    def act(api: API) -> None:
        for wanted in objects:
            api.create(wanted)

    return act


def change(kind: str, name: str, patch: Mapping[str, Any], *, subresource: str = "") -> Step:
    """Apply a JSON merge patch to an object, in namespace default if it has one."""
    return lambda api: _discard(api.patch(_stub(kind, name), patch=patch, subresource=subresource))


def delete(kind: str, name: str) -> Step:
    """Delete an object with the grace period that it asks for itself."""
    return lambda api: _discard(api.request("DELETE", api.object_path(_stub(kind, name))))


def end(name: str) -> Step:
    """End a pod at once, as a kubelet does with one that is being deleted."""
    return lambda api: api.delete(_stub("Pod", name))


def finish(name: str) -> Step:
    """Let a pod succeed."""
    return change("Pod", name, {"status": {"phase": "Succeeded"}}, subresource="status")


@dataclass(frozen=True)
class BindByHand:
    """Binds a pod in the scheduler's place. It is a type, since no scheduler writes an event about this binding."""

    pod: str
    node: str

    def __call__(self, api: API) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self.pod},
            "target": {"kind": "Node", "name": self.node},
        }
        api.request("POST", f"{api.path('Pod', 'default')}/{self.pod}/binding", body)


def allow_disruptions(name: str, count: int) -> Step:
    """Set how many pods of a PodDisruptionBudget may go, which is the disruption controller's part."""
    status = {"disruptionsAllowed": count, **dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 2)}
    return change("PodDisruptionBudget", name, {"status": status}, subresource="status")


def priority_class(name: str, value: int, **fields: Any) -> Object:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def budget(name: str, labels: Mapping[str, str]) -> Object:
    """A PodDisruptionBudget for pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": dict(labels)}},
    }


def _stub(kind: str, name: str) -> Object:
    metadata = {"name": name, **({"namespace": "default"} if kind in _NAMESPACED else {})}
    return {"apiVersion": _API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata}


def _discard(answer: object) -> None:
    pass

"""Admission: what the API server refuses or adds before it creates an object, and a hook for what webhooks refuse."""

from typing import Any

from tests.worlds.api_server import errors, kinds
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects.defaults import tolerate_lost_nodes

Object = dict[str, Any]

SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}


class Admission:
    """NamespaceLifecycle and Priority."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd

    def admit_creation(self, kind: Kind, namespace: str, value: Object) -> None:
        """Refuse what may not be created, and complete the rest. Raises RefusedError."""
        if kind.is_namespaced:
            self._check_namespace(kind, namespace, value["metadata"].get("name", ""))
        if kind is kinds.PODS:
            self._set_priority(value)

    def admit_update(self, kind: Kind, value: Object, before: Object) -> None:
        """Add to a pod what an update leaves out: its priority, and tolerations."""
        if kind is kinds.PODS:
            spec = value.setdefault("spec", {})
            for field in ("priority", "preemptionPolicy"):
                if field in before["spec"]:
                    spec.setdefault(field, before["spec"][field])
            tolerate_lost_nodes(value)

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        found = self._etcd.get(kinds.NAMESPACES, namespace)
        if found is None:
            raise errors.not_found(kinds.NAMESPACES, namespace)
        if "deletionTimestamp" in found.value["metadata"]:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = errors.forbidden(kind, name, text)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            refusal.status["details"]["causes"] = [{**cause, "field": "metadata.namespace"}]
            raise refusal

    def _set_priority(self, pod: Object) -> None:
        spec = pod.setdefault("spec", {})
        name = spec.get("priorityClassName")
        priority, policy = 0, "PreemptLowerPriority"
        if not name:
            spec.pop("priorityClassName", None)
            for item in self._etcd.all(kinds.PRIORITY_CLASSES):
                if item.value.get("globalDefault"):
                    spec["priorityClassName"] = item.value["metadata"]["name"]
                    priority, policy = item.value["value"], item.value["preemptionPolicy"]
        elif (found := self._etcd.get(kinds.PRIORITY_CLASSES, name)) is not None:
            priority, policy = found.value["value"], found.value["preemptionPolicy"]
        else:
            text = f"no PriorityClass with name {name} was found"
            raise errors.forbidden(kinds.PODS, pod["metadata"].get("name", ""), text)
        if spec.get("priority", priority) != priority:
            text = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
            raise errors.forbidden(kinds.PODS, pod["metadata"].get("name", ""), text)
        spec["priority"] = priority
        spec.setdefault("preemptionPolicy", policy)

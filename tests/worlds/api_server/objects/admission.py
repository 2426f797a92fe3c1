"""Admission: what the API server refuses or adds before it creates an object, and a hook for what webhooks refuse."""

from typing import Any, Final

from tests.worlds.actors.fitting import amounts_of, requests_of
from tests.worlds.api_server import errors, kinds
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects.defaults import tolerate_lost_nodes

Object = dict[str, Any]

# The first minor release that compares a resize with the pod's node.
RESIZES_FIT_NODES_SINCE: Final = 36

SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}


class Admission:
    """NamespaceLifecycle, Priority and PodResizeValidator. `minor` is the release."""

    def __init__(self, etcd: Etcd, minor: int) -> None:
        self._etcd = etcd
        self._minor = minor

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

    def admit_resize(self, pod: Object, before: Object) -> None:
        """Refuse to let a bound pod have more than its node. Raises RefusedError."""
        node_name = pod["spec"].get("nodeName")
        if self._minor < RESIZES_FIT_NODES_SINCE or not node_name or pod["spec"] == before["spec"]:
            return
        node = self._etcd.get(kinds.NODES, node_name)
        if node is None:
            raise errors.forbidden(kinds.PODS, pod["metadata"]["name"], f'node "{node_name}" not found')
        requests, allocatable = requests_of(pod), amounts_of(node.value["status"].get("allocatable", {}))
        lacking = [
            f"{name}, requested: {requests[name]}, allocatable: {allocatable.get(name, 0)}"
            for name in ("cpu", "memory")
            if requests.get(name, 0) > allocatable.get(name, 0)
        ]
        if lacking:
            text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            refusal = errors.forbidden(kinds.PODS, pod["metadata"]["name"], text)
            refusal.status["details"]["causes"] = [{"reason": "NodeCapacity"}]
            raise refusal

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

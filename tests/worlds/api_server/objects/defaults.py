"""What the API server fills in when an object is written: defaults of fields, and what admission plugins add.

Of the plugins it has those that change objects of these kinds in a usual cluster: Priority, DefaultTolerationSeconds,
StorageObjectInUseProtection. (ServiceAccount and TaintNodesByCondition are off, as in the tests' control planes.)
"""

import re
from collections.abc import Callable
from typing import Any

from tests.worlds.api_server import kinds
from tests.worlds.api_server.kinds import Kind

Object = dict[str, Any]

# The first minor releases with maxUnavailable of a StatefulSet, and with preventPodSchedulingIfMissing of a CSIDriver.
UNAVAILABLE_REPLICAS_SINCE = 37
SCHEDULING_IF_MISSING_SINCE = 37

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def fill(kind: Kind, value: Object, minor: int) -> None:
    """Set the defaults of what an object leaves out, at each write."""
    if kind in _FILL:
        _FILL[kind](value)
    if kind is kinds.STATEFUL_SETS and minor >= UNAVAILABLE_REPLICAS_SINCE:
        value["spec"]["updateStrategy"].setdefault("rollingUpdate", {}).setdefault("maxUnavailable", 1)
    if kind is kinds.CSI_DRIVERS and minor >= SCHEDULING_IF_MISSING_SINCE:
        value["spec"].setdefault("preventPodSchedulingIfMissing", False)


def _pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    pod_spec(spec)
    for container in _containers(spec):
        if limits := container["resources"].get("limits"):
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in _containers(spec):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])


def pod_spec(spec: Object) -> None:
    """Set the defaults of a pod's or a pod template's spec."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in _containers(spec):
        image = container.get("image", "")
        tag = re.search(r":([^/:]+)$", image)
        is_latest = image and "@" not in image and (tag is None or tag[1] == "latest")
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        for part in ("requests", "limits"):
            if part in resources and not resources[part]:
                del resources[part]
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")
        if "ports" in container and not container["ports"]:
            del container["ports"]
    for volume in spec.get("volumes", ()):
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
    if "tolerations" in spec and not spec["tolerations"]:
        del spec["tolerations"]


def _containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def _node(node: Object) -> None:
    spec = node.setdefault("spec", {})
    if "taints" in spec and not spec["taints"]:
        del spec["taints"]
    status = node.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _namespace(namespace: Object) -> None:
    if name := namespace["metadata"].get("name"):
        namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    namespace.setdefault("status", {}).setdefault("phase", "Active")
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def _template(workload: Object) -> None:
    template = workload["spec"].get("template")
    if template is not None:
        template.setdefault("metadata", {})
        pod_spec(template.setdefault("spec", {}))


def _replica_set(workload: Object) -> None:
    workload.setdefault("spec", {}).setdefault("replicas", 1)
    _template(workload)
    workload.setdefault("status", {}).setdefault("replicas", 0)


def _replication_controller(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        workload["metadata"].setdefault("labels", dict(labels))
    _replica_set(workload)


def _stateful_set(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    _template(workload)
    workload.setdefault("status", {}).setdefault("replicas", 0)
    workload["status"].setdefault("availableReplicas", 0)


def _daemon_set(workload: Object) -> None:
    workload.setdefault("spec", {}).setdefault("revisionHistoryLimit", 10)
    _template(workload)
    for name in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        workload.setdefault("status", {}).setdefault(name, 0)


def _job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    _template(job)
    job.setdefault("status", {})


def _budget(budget: Object) -> None:
    status = budget.setdefault("status", {})
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)
    if not status.get("observedGeneration"):
        status.pop("observedGeneration", None)


def _claim(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    claim["spec"].setdefault("resources", {})
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def _storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _driver(driver: Object) -> None:
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def _csi_node(node: Object) -> None:
    node.setdefault("spec", {}).setdefault("drivers", None)


def _attachment(attachment: Object) -> None:
    attachment.setdefault("status", {}).setdefault("attached", False)


def _priority_class(priority_class: Object) -> None:
    priority_class.setdefault("value", 0)
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


_FILL: dict[Kind, Callable[[Object], None]] = {
    kinds.PODS: _pod,
    kinds.NODES: _node,
    kinds.NAMESPACES: _namespace,
    kinds.SERVICES: _service,
    kinds.REPLICA_SETS: _replica_set,
    kinds.REPLICATION_CONTROLLERS: _replication_controller,
    kinds.STATEFUL_SETS: _stateful_set,
    kinds.DAEMON_SETS: _daemon_set,
    kinds.JOBS: _job,
    kinds.BUDGETS: _budget,
    kinds.CLAIMS: _claim,
    kinds.VOLUMES: _volume,
    kinds.STORAGE_CLASSES: _storage_class,
    kinds.CSI_DRIVERS: _driver,
    kinds.CSI_NODES: _csi_node,
    kinds.ATTACHMENTS: _attachment,
    kinds.PRIORITY_CLASSES: _priority_class,
}


def tolerate_lost_nodes(pod: Object) -> None:
    """Add the tolerations of five minutes that DefaultTolerationSeconds adds to a new pod."""
    tolerations = pod["spec"].setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(
            toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def quality_of_service(spec: Object) -> str:
    """Return a pod's QOSClass by its containers' cpu and memory."""
    requests: set[str] = set()
    limits: set[str] = set()
    is_guaranteed = True
    for container in _containers(spec):
        resources = container.get("resources", {})
        asked, limited = (
            {name: amount for name, amount in resources.get(part, {}).items() if name in ("cpu", "memory")}
            for part in ("requests", "limits")
        )
        asked = {name: amount for name, amount in asked.items() if amount not in ("0", 0)}
        requests |= asked.keys()
        limits |= limited.keys()
        is_guaranteed = is_guaranteed and len(limited) == 2 and asked == limited
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"

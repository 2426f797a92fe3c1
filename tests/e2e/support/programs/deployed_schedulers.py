"""What deployed schedulers must be able to do by the rights of their account, and what the API server refuses."""

import re
from typing import Any

from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.volume_controllers import claim, is_available, storage_class, volume_on
from tests.e2e.support.waiting import wait_until


def create_nodes(control_plane: ControlPlane) -> None:
    """Create the nodes that `place_all_kinds` needs."""
    control_plane.api.create(node("a"), node("b"), node("c", labels={"disk": "fast"}))


def place_all_kinds(control_plane: ControlPlane, scheduler_name: str) -> None:
    """Have a pod with a volume placed, pods that fill the nodes, and one that displaces another.

    While this runs, volume controllers must, too.
    """
    api = control_plane.api
    ours: dict[str, Any] = {"schedulerName": scheduler_name}
    api.create(storage_class("found", provisioner="kubernetes.io/no-provisioner"), volume_on("b", "disk", "found"))
    wait_until(lambda: is_available(api.get("PersistentVolume", "disk")), "the volume to be available")
    api.create(claim("data", "found"))
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    api.create(pod("stateful", volumes=[data], **ours))
    api.create(*(pod(f"large-{number}", requests={"cpu": "3"}, **ours) for number in range(3)))
    nodes = nodes_once_all_are_bound(control_plane)
    assert nodes.pop("stateful") == "b"
    assert set(nodes.values()) == {"a", "b", "c"}

    critical = "system-cluster-critical"
    api.create(pod("urgent", requests={"cpu": "3"}, priorityClassName=critical, nodeSelector={"disk": "fast"}, **ours))
    wait_until(lambda: len(api.list_all("Pod")) == 4, "a pod to be preempted")
    assert nodes_once_all_are_bound(control_plane)["urgent"] == "c"


def nodes_once_all_are_bound(control_plane: ControlPlane) -> dict[str, str]:
    """The node of each pod by the pod's name."""
    api = control_plane.api
    wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)
    return {found["metadata"]["name"]: found["spec"]["nodeName"] for found in api.list_all("Pod")}


def refusals(control_plane: ControlPlane) -> float:
    """How many requests of any user the API server has answered with 403."""
    metrics = control_plane.kubectl("get", "--raw=/metrics").splitlines()
    attempts = [line for line in metrics if line.startswith("authorization_attempts_total{")]
    assert attempts
    return sum(float(line.rpartition(" ")[2]) for line in attempts if 'result="allowed"' not in line)


def priority_levels(control_plane: ControlPlane) -> dict[str, str]:
    """The FlowSchemas that requests of any user have matched so far, each with its priority level."""
    metrics = control_plane.kubectl("get", "--raw=/metrics")
    executed = "apiserver_flowcontrol_dispatched_requests_total"
    return dict(re.findall(rf'^{executed}{{flow_schema="(.+)",priority_level="(.+)"}}', metrics, re.MULTILINE))


def may_do(control_plane: ControlPlane, user: str, verb: str, resource: str, *, group: str = "") -> bool:
    """Whether the API server would let a user do something in any namespace."""
    name, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    path = control_plane.api.path("SubjectAccessReview", api_version="authorization.k8s.io/v1")
    allowed: bool = control_plane.api.request("POST", path, review)["status"]["allowed"]
    return allowed

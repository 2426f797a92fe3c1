"""Pods that wait for a custom resource, on a real API server that does not even serve it at first."""

from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.plugins.licensed_pods import LicensedPods
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.waiting import wait_until

CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "licenses.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "licenses", "singular": "license", "kind": "License"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "licenses"},
    "rules": [{"apiGroups": ["example.com"], "resources": ["licenses"], "verbs": ["list", "watch"]}],
}
BINDING: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "licenses"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "licenses"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}],
}
CONFIGURATION: Object = {
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "LicensedPods"}]}}}],
}


def license_with(seats: int) -> Object:
    spec = {"seats": seats}
    return {"apiVersion": "example.com/v1", "kind": "License", "metadata": {"name": "cad"}, "spec": spec}


def node_of(api: API, name: str) -> str:
    found: str = api.get("Pod", name, namespace="default")["spec"].get("nodeName", "")
    return found


def test_a_pod_waits_for_a_custom_resource_whose_kind_is_served_later(empty_cluster: ControlPlane) -> None:
    api = empty_cluster.api
    hints = ["--feature-gates=SchedulerQueueingHints=true"]
    with scheduling(empty_cluster, CONFIGURATION, name="licensed", plugins=[LicensedPods], options=hints) as process:
        api.create(node("a"))
        api.create(pod("free"), pod("licensed", labels={"license": "cad"}))
        wait_until(lambda: node_of(api, "free"), "the pod that needs no license to be bound")
        wait_until(lambda: "cannot be listed" in process.log.read_text(), "the log to name the kind that is not served")
        created = api.create(CRD, ROLE, BINDING)
        try:
            wait_until(lambda: created_if_served(api), "the kind to be served")
            wait_until(lambda: "licenses: listed" in process.log.read_text(), "the kind to be listed")
            assert node_of(api, "licensed") == ""
            api.request("PATCH", "/apis/example.com/v1/licenses/cad", {"spec": {"seats": 1}})
            wait_until(lambda: node_of(api, "licensed"), "the license to wake the pod")
            process.require_running()
        finally:
            for each in created:
                api.delete(each)


def created_if_served(api: API) -> Object | None:
    try:
        return api.request("POST", "/apis/example.com/v1/licenses", license_with(0))
    except APIError as error:
        if error.status_code != 404:
            raise
        return None

"""A missing right keeps the service from being ready, and /readyz names it; what is not certain does not."""

from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

RBAC = "rbac.authorization.k8s.io"
READ: Object = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
BIND: Object = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
MISSING = "[-]binding-right failed: missing right: create pods/binding (the ClusterRole system:kube-scheduler has it)"


def cluster_role(name: str, *rules: Object) -> Object:
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def role_binding(name: str, user: str, role: str, namespace: str = "") -> Object:
    """Give a user the rights of a ClusterRole, in one namespace or in all."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def reader(control_plane: ControlPlane, user: str, rules: Sequence[Object] = (READ,)) -> Path:
    """Return the kubeconfig of a new user with these rights."""
    role = f"{user}-reads"
    control_plane.api.create(cluster_role(role, *rules), role_binding(role, user, role))
    return control_plane.user_kubeconfig(user)


def readiness(service: Service) -> str:
    return httpx.get(f"{service.url}/readyz?verbose", trust_env=False).text


def warnings(service: Service) -> list[str]:
    return [line["msg"] for line in service.log_lines() if line["level"] == "warning"]


def bind(service: Service, created: Object, on: str) -> str:
    """Have a pod bound; return the error, empty if there is none."""
    metadata = created["metadata"]
    body = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": on}
    error: str = service.call("bind", body)["Error"]
    return error


def test_the_right_to_bind_pods_is_missed_until_it_is_granted_and_once_it_is_taken_away(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    api = control_plane.api
    _, one, two = api.create(node("a"), pod("one"), pod("two"))
    kubeconfig = reader(control_plane, "binder")
    grant = role_binding("binder-binds", "binder", "binds")
    with Service(tmp_path, kubeconfig, wait_ready=False) as service:
        wait_until(lambda: MISSING in readiness(service), "the missing right")
        assert httpx.get(f"{service.url}/readyz", trust_env=False).status_code == 500
        assert "readyz check failed" in readiness(service)
        assert "cannot create resource" in bind(service, one, "a")
        assert [text for text in warnings(service) if "no pod can be bound" in text] == [
            "not ready, as no pod can be bound: " + MISSING.partition("failed: ")[2]
        ]

        api.create(cluster_role("binds", BIND), grant)
        wait_until(service.is_ready, "the service to notice the right", timeout_seconds=30)
        assert "[+]binding-right ok" in readiness(service)
        assert bind(service, one, "a") == ""

        api.delete(grant)
        wait_until(lambda: "cannot create resource" in bind(service, two, "a"), "a binding that is refused")
        wait_until(lambda: MISSING in readiness(service), "the missing right")


def test_the_right_to_bind_pods_of_one_namespace_is_enough(shared_control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = reader(shared_control_plane, "tenant")
    shared_control_plane.api.create(
        cluster_role("tenant-binds", BIND), role_binding("tenant-binds", "tenant", "tenant-binds", "default")
    )
    with Service(tmp_path, kubeconfig) as service:
        assert "[+]binding-right ok" in readiness(service)
        assert not warnings(service)


def test_beside_no_right_to_bind_is_needed(shared_control_plane: ControlPlane, tmp_path: Path) -> None:
    with Service(tmp_path, reader(shared_control_plane, "beside"), mode="beside") as service:
        assert "binding-right" not in readiness(service)


def test_who_may_not_ask_for_its_rights_is_ready_all_the_same(control_plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = reader(control_plane, "silent")
    api = control_plane.api
    api.delete(api.get("ClusterRoleBinding", "system:basic-user", api_version=f"{RBAC}/v1"))
    with Service(tmp_path, kubeconfig, wait_ready=False) as service:
        wait_until(service.is_ready, "the service's /readyz")
        [line] = [line for line in service.log_lines() if line["level"] == "warning"]
        assert line["msg"] == "cannot find out whether pods may be bound"
        assert 'User "silent" cannot create resource "selfsubjectaccessreviews"' in line["problem"]


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_kind_that_may_not_be_read_is_named(shared_control_plane: ControlPlane, tmp_path: Path, verb: str) -> None:
    verbs = [each for each in ("get", "list", "watch") if each != verb]
    others = {**READ, "apiGroups": ["", "apps", "policy"]}
    storage = {**READ, "apiGroups": ["storage.k8s.io"], "verbs": verbs}
    kubeconfig = reader(shared_control_plane, f"no-{verb}", [others, storage, BIND])
    with Service(tmp_path, kubeconfig, wait_ready=False, options=["--stale-limit=10s"]) as service:
        user = f'User "no-{verb}" cannot {verb} resource "csinodes"'
        wait_until(lambda: user in readiness(service), "the missing right")
        assert "[+]watch-nodes ok" in readiness(service)

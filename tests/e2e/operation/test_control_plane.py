"""The control plane that the other end-to-end tests stand on."""

from collections import Counter

import pytest

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.releases import both_releases
from tests.e2e.support.waiting import wait_until

DEFAULT_PROFILE = {"profiles": [{"schedulerName": "default-scheduler"}]}


@both_releases
def test_stock_kube_scheduler_binds_a_pod_where_it_fits(control_plane: ControlPlane) -> None:
    control_plane.api.create(node("small", cpu="1"), node("large", cpu="8"))
    control_plane.api.create(pod("demanding", requests={"cpu": "4"}))

    control_plane.start_scheduler(DEFAULT_PROFILE)

    assert wait_until(lambda: nodes_of_bound_pods(control_plane), "the pod to be bound") == ["large"]


@both_releases
def test_every_program_is_the_version_of_the_reference(shared_control_plane: ControlPlane, minor: int) -> None:
    versions = shared_control_plane.kubectl("version").splitlines()

    version = {31: "v1.31.1", 37: "v1.37.2"}[minor]
    assert {line.split(": ")[1] for line in versions if "Version" in line and "Kustomize" not in line} == {version}


def test_server_side_dry_run_judges_and_stores_nothing(shared_control_plane: ControlPlane) -> None:
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tried, namespace: default}\n"
    apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")

    accepted = shared_control_plane.kubectl(*apply, stdin=config_map + "data: {key: value}")
    assert accepted == "configmap/tried created (server dry run)\n"
    with pytest.raises(RuntimeError, match='unknown field "dada"'):
        shared_control_plane.kubectl(*apply, stdin=config_map + "dada: {key: value}")
    assert not shared_control_plane.api.list_all("ConfigMap", field_selector="metadata.name=tried")


def test_objects_outlive_the_api_server_and_clients_find_it_again(control_plane: ControlPlane) -> None:
    control_plane.api.create(node("a"), pod("before"))
    control_plane.start_scheduler(DEFAULT_PROFILE)
    wait_until(lambda: nodes_of_bound_pods(control_plane) == ["a"], "the first pod to be bound")

    control_plane.api_server.kill()
    assert not control_plane.api.is_ready()
    control_plane.start_api_server()
    control_plane.api.create(pod("after"))

    wait_until(lambda: nodes_of_bound_pods(control_plane) == ["a", "a"], "the second pod to be bound")


def test_a_service_account_has_its_own_rights_only(shared_control_plane: ControlPlane) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}}
    shared_control_plane.api.create(account)
    shared_control_plane.kubectl("create", "clusterrole", "read-nodes", "--verb=get,list", "--resource=nodes")
    shared_control_plane.kubectl(
        "create", "clusterrolebinding", "read-nodes", "--clusterrole=read-nodes", "--serviceaccount=default:reader"
    )
    kubeconfig = shared_control_plane.service_account_kubeconfig("default", "reader")

    shared_control_plane.kubectl("get", "nodes", f"--kubeconfig={kubeconfig}")
    with pytest.raises(RuntimeError, match='User "system:serviceaccount:default:reader" cannot list resource "pods"'):
        shared_control_plane.kubectl("get", "pods", f"--kubeconfig={kubeconfig}")


def test_a_client_certificate_names_a_user_and_a_group(shared_control_plane: ControlPlane) -> None:
    nobody = shared_control_plane.user_kubeconfig("alice")
    administrator = shared_control_plane.user_kubeconfig("root", group="system:masters")

    shared_control_plane.kubectl("get", "nodes", f"--kubeconfig={administrator}")
    with pytest.raises(RuntimeError, match='User "alice" cannot list resource "nodes"'):
        shared_control_plane.kubectl("get", "nodes", f"--kubeconfig={nobody}")


def test_many_objects_are_created_changed_and_deleted_in_bulk(control_plane: ControlPlane) -> None:
    api = control_plane.api
    nodes = api.create(*(node(f"node-{number}", pods="5") for number in range(100)))
    pods = api.create(*(pod(f"pod-{number}", nodeName=f"node-{number % 100}") for number in range(500)))

    api.patch(*nodes[:50], patch={"spec": {"unschedulable": True}})
    api.patch(*pods[:200], patch={"status": {"phase": "Running"}}, subresource="status")
    api.delete(*pods[300:])

    stored_nodes, stored_pods = api.list_all("Node"), api.list_all("Pod", namespace="default")
    assert {stored["status"]["allocatable"]["pods"] for stored in stored_nodes} == {"5"}
    assert not any("taints" in stored["spec"] for stored in stored_nodes[50:])
    assert sum(stored["spec"].get("unschedulable", False) for stored in stored_nodes) == 50
    assert Counter(stored["status"]["phase"] for stored in stored_pods) == {"Running": 200, "Pending": 100}


def nodes_of_bound_pods(control_plane: ControlPlane) -> list[str]:
    pods: list[Object] = control_plane.api.list_all("Pod")
    return [bound["spec"]["nodeName"] for bound in pods if "nodeName" in bound["spec"]]

"""The manifests of deploy/: the API server takes them, their rights suffice, and pods are placed by their settings."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
import yaml

from extender_service.command.serve.listeners import DEFAULT_HEALTHZ_PORT
from extender_service.config.release import NEWEST_MINOR
from tests.e2e.support.api import APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.deployed_schedulers import (
    create_nodes,
    may_do,
    nodes_once_all_are_bound,
    place_all_kinds,
    priority_levels,
    refusals,
)
from tests.e2e.support.programs.deployments import (
    DEPLOY,
    Base,
    edit,
    scheduler_process,
    service_container,
    wait_for_probes,
)
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.volume_controllers import volume_controllers
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until
from tests.support.servers.certificates import issue, mount, pem_files
from tests.support.servers.free_ports import free_port

BASES = ("scheduler", "second-scheduler", "beside", "beside-pair")
PAGE = (DEPLOY.parent / "docs" / "deploy.md").read_text()
# What each overlay patches to name a plugin: its base, the kind and the path.
PATCHED = re.findall(r"^\| `deploy/([\w-]+)` \| `(\w+)` \| `(/\S+)` \|$", PAGE, re.MULTILINE)


@both_releases
@pytest.mark.parametrize("name", BASES)
def test_the_api_server_accepts_each_manifest(shared_control_plane: ControlPlane, name: str) -> None:
    base = Base(shared_control_plane, name)
    base.grant_rights()  # a dry run makes no namespace for the others

    accepted = shared_control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-o=name", "-f", "-", stdin=base.text
    )

    assert len(accepted.splitlines()) == len(base.objects)


@both_releases
@pytest.mark.parametrize("name", BASES)
def test_the_namespace_admits_the_pods(shared_control_plane: ControlPlane, name: str) -> None:
    base = Base(shared_control_plane, name)
    base.grant_rights()
    namespace = base.of_kind("Namespace")["metadata"]["name"]
    metadata = {**base.pod_template["metadata"], "name": "tried", "namespace": namespace}
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": base.pod_template["spec"]}

    admitted = shared_control_plane.kubectl(
        "create", "--dry-run=server", "-o=yaml", "-f", "-", stdin=yaml.safe_dump(wanted)
    )

    assert yaml.safe_load(admitted)["spec"]["priority"] == 2_000_000_000  # system-cluster-critical


def test_the_page_says_for_each_base_how_to_name_a_plugin() -> None:
    assert sorted(base for base, _, _ in PATCHED) == sorted(folder.name for folder in DEPLOY.iterdir())


@pytest.mark.parametrize(("name", "kind", "path"), PATCHED)
def test_an_overlay_names_a_plugin_as_the_page_says(
    shared_control_plane: ControlPlane, tmp_path: Path, name: str, kind: str, path: str
) -> None:
    [patches] = re.findall(r"^```yaml\n(patches:\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for documented, here in (("kind: Deployment", f"kind: {kind}"), ("/spec/template/spec/containers/0/args/-", path)):
        assert documented in patches
        patches = patches.replace(documented, here)
    resources = f"resources:\n  - {os.path.relpath(DEPLOY / name, tmp_path)}\n"
    (tmp_path / "kustomization.yaml").write_text(resources + patches)

    built = [*yaml.safe_load_all(shared_control_plane.kubectl("kustomize", tmp_path))]

    [workload] = [found for found in built if found["kind"] == kind]
    spec = workload["spec"].get("template", workload)["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    [ours] = [container for container in containers if container["image"] == "extender-service"]
    assert ours["args"][-1] == "--plugin=my_plugins:NotDraining"


def test_beside_an_overlay_moves_metrics_and_probes_to_the_nodes_address_as_the_page_says(
    shared_control_plane: ControlPlane, tmp_path: Path
) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [patches] = [block for block in blocks if "--healthz-bind-address" in block]
    resources = f"resources:\n  - {os.path.relpath(DEPLOY / 'beside', tmp_path)}\n"
    (tmp_path / "kustomization.yaml").write_text(resources + patches)

    built = [*yaml.safe_load_all(shared_control_plane.kubectl("kustomize", tmp_path))]

    [workload] = [found for found in built if found["kind"] == "DaemonSet"]
    [container] = workload["spec"]["template"]["spec"]["containers"]
    assert {"--bind-address=127.0.0.1", "--healthz-bind-address=$(POD_IP)"} < set(container["args"])
    assert [variable["name"] for variable in container["env"]] == ["POD_IP"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]}["probes"] == DEFAULT_HEALTHZ_PORT
    paths = {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    for name, path in paths.items():
        assert container[name]["httpGet"] == {"port": "probes", "path": path}


@pytest.mark.parametrize("name", ["second-scheduler", "beside"])
def test_the_account_may_change_only_one_annotation_of_pods(empty_cluster: ControlPlane, name: str) -> None:
    base = Base(empty_cluster, name)
    base.grant_rights()
    account = base.of_kind("ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    created = pod("web", labels={"app": "web"})
    created["metadata"]["annotations"] = {"team": "blue"}
    empty_cluster.api.create(created)

    path = empty_cluster.api.object_path(created)

    def is_denied(patch: Object, subresource: str = "") -> bool:
        try:
            empty_cluster.api.request("PATCH", path + subresource, patch, user=user)
        except APIError as error:
            return "the annotation extender-service/asked-again of a pod" in str(error)
        return False

    def is_metadata_denied(subresource: str = "", **metadata: object) -> bool:
        return is_denied({"metadata": metadata}, subresource)

    tags, [container] = itertools.count(2), created["spec"]["containers"]

    def may_not_change_the_image() -> bool:
        changed = {**container, "image": f"registry.example/main:{next(tags)}"}
        return is_denied({"spec": {"containers": [changed]}})

    wait_until(may_not_change_the_image, "the policy to hold, soon after it was made")
    for number in range(2):
        assert not is_metadata_denied(annotations={"extender-service/asked-again": str(number)})
    assert is_metadata_denied(annotations={"team": "red"})
    assert is_metadata_denied(annotations={"team": None})
    assert is_metadata_denied(annotations={"other": "1"})
    assert is_metadata_denied(labels={"more": "1"})
    assert is_metadata_denied(finalizers=["example.com/stay"])
    if name == "second-scheduler":  # which may write the status of pods
        assert is_metadata_denied("/status", labels={"more": "1"})
        assert not is_denied({"status": {"nominatedNodeName": "a"}}, "/status")
        assert empty_cluster.api.get("Pod", "web", namespace="default")["status"]["nominatedNodeName"] == "a"
    annotations = empty_cluster.api.get("Pod", "web", namespace="default")["metadata"]["annotations"]
    assert annotations == {"team": "blue", "extender-service/asked-again": "1"}
    empty_cluster.kubectl("label", "pod/web", "by=the-administrator")


@both_releases
@pytest.mark.parametrize("name", ["scheduler", "second-scheduler"])
def test_a_binding_by_the_account_changes_no_labels_nor_annotations_of_the_pod(
    empty_cluster: ControlPlane, name: str, minor: int
) -> None:
    """The API server merges a binding's annotations into the pod, and since 1.35 its labels."""
    base = Base(empty_cluster, name)
    base.grant_rights()
    account = base.of_kind("ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    api, zone, bound = empty_cluster.api, {"topology.kubernetes.io/zone": "z"}, pod("web", labels={"app": "web"})
    api.create(node("a", labels=zone), bound)

    def bind(parameters: Mapping[str, str], **metadata: object) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": "default", "name": "web", **metadata},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
        }
        api.request("POST", f"{api.object_path(bound)}/binding", binding, parameters, user=user)

    def is_denied(**metadata: object) -> bool:
        try:
            bind({"dryRun": "All"}, **metadata)
        except APIError as error:
            return "a binding by this account may bring no annotations" in str(error)
        return False

    wait_until(lambda: is_denied(annotations={"more": "1"}), "the policy to hold, soon after it was made")
    for labels in ({"app": "other"}, {"topology.kubernetes.io/rack": "r"}):
        assert is_denied(labels=labels)
    bind({})
    found = api.get("Pod", "web", namespace="default")
    assert found["spec"]["nodeName"] == "a"
    assert found["metadata"]["labels"] == {"app": "web"} | (zone if minor >= 35 else {})
    assert "annotations" not in found["metadata"]


def test_kube_scheduler_itself_judges_nothing_preempts_nobody_and_binds_no_claims() -> None:
    configuration = yaml.safe_load((DEPLOY / "second-scheduler" / "kube-scheduler.yaml").read_text())
    [profile] = configuration["profiles"]
    plugins = profile["plugins"]

    for point in ("filter", "preScore", "score"):
        assert plugins[point] == {"disabled": [{"name": "*"}]}
    assert plugins["preFilter"] == {"disabled": [{"name": "*"}], "enabled": [{"name": "DynamicResources"}]}
    assert plugins["postFilter"] == {"disabled": [{"name": "DefaultPreemption"}]}
    for point in ("reserve", "preBind"):
        assert plugins[point]["disabled"] == [{"name": "VolumeBinding"}, {"name": "DynamicResources"}]
    [extender] = configuration["extenders"]
    assert "preemptVerb" not in extender


@both_releases
def test_two_pairs_place_pods_with_the_rights_of_their_account(
    control_plane: ControlPlane, controlplane: Path, tmp_path: Path, minor: int
) -> None:
    base = Base(control_plane, "second-scheduler")
    account = base.grant_rights()
    api = control_plane.api
    create_nodes(control_plane)
    refused_before = refusals(control_plane)

    with (
        volume_controllers(api),
        pair(base, controlplane, account, tmp_path / "first", minor) as first,
        pair(base, controlplane, account, tmp_path / "second", minor) as second,
    ):
        place_all_kinds(control_plane, "extender-scheduler")

        leader, standby = (first, second) if first.leads else (second, first)
        leader.stop()
        api.create(for_the_pairs("later"))
        assert "later" in nodes_once_all_are_bound(control_plane)
        assert standby.leads
        assert "forbidden" not in (leader.logs + standby.logs).lower()
    assert refusals(control_plane) == refused_before
    levels = priority_levels(control_plane)
    assert levels["extender-scheduler-leader-election"] == "leader-election"
    assert levels["extender-scheduler"] == "workload-high"


@pytest.mark.parametrize("minor", [NEWEST_MINOR], scope="session")
def test_pods_are_placed_where_kube_scheduler_runs_dynamic_resources(
    control_plane: ControlPlane, controlplane: Path, tmp_path: Path, minor: int
) -> None:
    """The default since Kubernetes 1.34. DynamicResources needs its PreFilter."""
    base = Base(control_plane, "second-scheduler")
    account = base.grant_rights()
    api = control_plane.api
    api.create(node("a"))
    with pair(base, controlplane, account, tmp_path / "pair", minor) as running:
        api.create(for_the_pairs("placed", requests={"cpu": "3"}))
        assert nodes_once_all_are_bound(control_plane) == {"placed": "a"}

        api.create(for_the_pairs("urgent", requests={"cpu": "3"}, priorityClassName="system-cluster-critical"))
        wait_until(lambda: [found["metadata"]["name"] for found in api.list_all("Pod")] == ["urgent"], "preemption")
        assert nodes_once_all_are_bound(control_plane) == {"urgent": "a"}
        assert "Plugin failed" not in running.scheduler.log.read_text()


@both_releases
def test_beside_the_control_planes_scheduler_pods_with_gpus_are_packed(
    control_plane: ControlPlane, controlplane: Path, tmp_path: Path, minor: int
) -> None:
    base = Base(control_plane, "beside")
    account = base.grant_rights()
    api = control_plane.api
    api.create(*(with_gpus(node(name)) for name in ("a", "b", "c")))
    api.create(with_a_gpu(pod("before", nodeName="b")))
    refused_before = refusals(control_plane)
    base.write_files(tmp_path / "files")
    port = free_port()

    with (
        service_container(
            base, tmp_path / "files", account, port, tmp_path / "extender-service.log", options=[deciding_as(minor)]
        ) as service,
        kubeadm_scheduler(
            control_plane, controlplane, tmp_path, {"http://127.0.0.1:8888": f"http://127.0.0.1:{port}"}
        ) as scheduler,
    ):
        api.create(*(with_a_gpu(pod(f"packed-{number}")) for number in range(4)))
        assert set(nodes_once_all_are_bound(control_plane).values()) == {"b"}

        service.kill()
        api.create(with_a_gpu(pod("later")))
        assert "later" in nodes_once_all_are_bound(control_plane)
        assert "forbidden" not in (service.log.read_text() + scheduler.log.read_text()).lower()
    assert refusals(control_plane) == refused_before


def test_beside_it_over_mutual_tls(control_plane: ControlPlane, controlplane: Path, tmp_path: Path) -> None:
    base = Base(control_plane, "beside-pair")
    assert [found["kind"] for found in base.objects].count("Deployment") == 1
    assert "DaemonSet" not in base.text
    account = base.grant_rights()
    api = control_plane.api
    api.create(*(with_gpus(node(name)) for name in ("a", "b", "c")))
    api.create(with_a_gpu(pod("before", nodeName="b")))
    authority = trustme.CA()
    base.write_files(tmp_path / "files")
    mount(tmp_path / "files" / "tls", pem_files(issue(authority, "extender-service.extender-service.svc"), authority))
    mount(tmp_path / "node", pem_files(issue(authority, "a.test", common_name="system:kube-scheduler"), authority))
    port, probes_port = free_port(), free_port()
    edits = {"https://CLUSTER-IP": f"https://127.0.0.1:{port}"} | {
        f"/etc/kubernetes/extender-scheduler/{name}": str(tmp_path / "node" / name)
        for name in ("ca.crt", "tls.crt", "tls.key")
    }
    log = tmp_path / "extender-service.log"

    with (
        service_container(
            base, tmp_path / "files", account, port, log, address="0.0.0.0", probes_port=probes_port
        ) as service,
        kubeadm_scheduler(control_plane, controlplane, tmp_path, edits, "beside-pair"),
    ):
        api.create(*(with_a_gpu(pod(f"packed-{number}")) for number in range(4)))
        assert set(nodes_once_all_are_bound(control_plane).values()) == {"b"}
        assert "refused a connection" not in service.log.read_text()


def test_the_service_beside_may_read_what_it_decides_on_patch_pods_and_do_nothing_else(
    shared_control_plane: ControlPlane,
) -> None:
    """test_the_account_may_change_only_one_annotation_of_pods shows what of a pod it may patch."""
    Base(shared_control_plane, "beside").grant_rights()
    core = ("nodes", "nodes/status", "pods", "pods/binding", "pods/status", "pods/eviction", "secrets", "events")
    policy = ("poddisruptionbudgets", "poddisruptionbudgets/status")
    resources = [*(("", name) for name in core), *(("policy", name) for name in policy)]
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")

    user = "system:serviceaccount:extender-service:extender-service"
    may = {
        (verb, name)
        for verb in verbs
        for group, name in resources
        if may_do(shared_control_plane, user, verb, name, group=group)
    }

    readable = ("nodes", "pods", "poddisruptionbudgets")
    assert may == {(verb, name) for verb in ("list", "watch") for name in readable} | {("patch", "pods")}


def test_the_second_schedulers_account_may_write_events(shared_control_plane: ControlPlane) -> None:
    Base(shared_control_plane, "second-scheduler").grant_rights()

    user = "system:serviceaccount:extender-scheduler:extender-scheduler"
    for verb in ("create", "patch"):
        assert may_do(shared_control_plane, user, verb, "events", group="events.k8s.io"), verb


class Pair(NamedTuple):
    """A pod of the second scheduler, as processes."""

    service: Process
    scheduler: Process

    @property
    def leads(self) -> bool:
        return "successfully acquired lease" in self.scheduler.log.read_text().lower()  # releases differ in case

    @property
    def logs(self) -> str:
        return self.service.log.read_text() + self.scheduler.log.read_text()

    def stop(self) -> None:
        """End the pod, its sidecar last."""
        self.scheduler.stop()
        self.service.stop()


@contextmanager
def pair(base: Base, controlplane: Path, account: Path, directory: Path, minor: int) -> Iterator[Pair]:
    """A pod of the second scheduler: the sidecar, which decides as 1.`minor`, and once that is well, kube-scheduler."""
    directory.mkdir()
    host = directory.name
    files, port, probes_port = directory / "files", free_port(), free_port()
    base.write_files(files)
    configuration = files / "kube-scheduler.yaml"
    edit(configuration, replace="http://127.0.0.1:8888", by=f"http://127.0.0.1:{port}")
    # In a pod kube-scheduler finds the API server, and its token, by itself.
    edit(
        configuration, replace="\nleaderElection:", by=f"\nclientConnection: {{kubeconfig: {account}}}\nleaderElection:"
    )
    command: list[str | Path] = [controlplane, *base.command("kube-scheduler", files)]
    log, release = directory / "extender-service.log", deciding_as(minor)
    with (
        service_container(
            base, files, account, port, log, probes_port=probes_port, host=host, options=[release]
        ) as service,
        scheduler_process(command, account, directory / "kube-scheduler.log", host) as (scheduler, secure_port),
    ):
        wait_for_probes(base.container("kube-scheduler"), scheduler, secure_port, liveness_port=probes_port)
        yield Pair(service, scheduler)


@contextmanager
def kubeadm_scheduler(
    control_plane: ControlPlane, controlplane: Path, directory: Path, edits: Mapping[str, str], base: str = "beside"
) -> Iterator[Process]:
    """The control plane's kube-scheduler as kubeadm starts it, with the file that docs/deploy.md puts on its node."""
    user = control_plane.user_kubeconfig("system:kube-scheduler")
    configuration = directory / "kube-scheduler.yaml"
    configuration.write_text((DEPLOY / base / "kube-scheduler.yaml").read_text())
    for replace, by in {"/etc/kubernetes/scheduler.conf": str(user), **edits}.items():
        edit(configuration, replace=replace, by=by)
    flags = ["--bind-address=127.0.0.1", "--leader-elect=true", f"--kubeconfig={user}", f"--config={configuration}"]
    command: list[str | Path] = [controlplane, "kube-scheduler", *flags]
    with scheduler_process(command, user, directory / "kube-scheduler.log") as (scheduler, _):
        yield scheduler


def for_the_pairs(name: str, **facts: Any) -> Object:
    return pod(name, schedulerName="extender-scheduler", **facts)


def with_gpus(wanted: Object) -> Object:
    """A node with 8 GPUs besides."""
    for amounts in ("capacity", "allocatable"):
        wanted["status"][amounts]["nvidia.com/gpu"] = "8"
    return wanted


def with_a_gpu(wanted: Object) -> Object:
    """A pod that requests a GPU; of these the limit is the request."""
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return wanted

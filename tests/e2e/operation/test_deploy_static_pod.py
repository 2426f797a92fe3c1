"""deploy/static-pod: the whole scheduler in place of the cluster's kube-scheduler, with its rights and its lease."""

from pathlib import Path

import yaml

from tests.e2e.support.objects import Object, node
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.deployed_schedulers import create_nodes, place_all_kinds, refusals
from tests.e2e.support.programs.deployments import DEPLOY, edit, scheduler_process, wait_for_probes
from tests.e2e.support.programs.service import PROGRAM
from tests.e2e.support.programs.volume_controllers import volume_controllers
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

FOLDER = DEPLOY / "static-pod"


def static_pod(control_plane: ControlPlane) -> Object:
    found: Object = yaml.safe_load(control_plane.kubectl("kustomize", FOLDER))
    return found


@both_releases
def test_its_kubelet_may_show_it_to_the_api_server(controlplane: Path, tmp_path: Path, minor: int) -> None:
    """As a mirror pod, which must refer to no other object of the API."""
    with ControlPlane(
        controlplane, tmp_path, api_server_options=["--enable-admission-plugins=NodeRestriction"]
    ) as running:
        [itself] = running.api.create(node("a"))
        running.kubectl("create", "clusterrolebinding", "nodes", "--clusterrole=system:node", "--group=system:nodes")
        mirror = static_pod(running)
        owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": itself["metadata"]["uid"], "controller": True}
        mirror["metadata"] |= {
            "name": "kube-scheduler-a",
            "annotations": {"kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file"},
            "ownerReferences": [owner],
        }
        mirror["spec"]["nodeName"] = "a"

        as_the_kubelet = ("--as=system:node:a", "--as-group=system:nodes")
        options = ("--dry-run=server", "--validate=strict", "-o=yaml", *as_the_kubelet)
        admitted = running.kubectl("create", *options, "-f", "-", stdin=yaml.safe_dump(mirror))

        assert yaml.safe_load(admitted)["spec"]["priority"] == 2_000_001_000  # system-node-critical


@both_releases
def test_it_schedules_once_kube_scheduler_is_stopped(
    control_plane: ControlPlane, controlplane: Path, tmp_path: Path, minor: int
) -> None:
    user = control_plane.user_kubeconfig("system:kube-scheduler")
    [container] = static_pod(control_plane)["spec"]["containers"]
    configuration = tmp_path / "whole-scheduler.yaml"
    configuration.write_text((FOLDER / configuration.name).read_text())
    edit(configuration, replace="kubeconfig: /etc/kubernetes/scheduler.conf", by=f"kubeconfig: {user}")
    here = {"/etc/kubernetes/scheduler.conf": str(user), "/etc/kubernetes/whole-scheduler.yaml": str(configuration)}
    arguments: list[str] = container["args"]
    for path, file in here.items():
        arguments = [word.replace(path, file) for word in arguments]
    flags = ["--bind-address=127.0.0.1", "--leader-elect=true", f"--kubeconfig={user}"]
    kubeadms: list[str | Path] = [controlplane, "kube-scheduler", *flags]
    command: list[str | Path] = [PROGRAM, *arguments, deciding_as(minor)]
    create_nodes(control_plane)

    with scheduler_process(kubeadms, user, tmp_path / "kube-scheduler.log") as (stock, _):
        wait_until(lambda: "successfully acquired lease" in stock.log.read_text().lower(), "kube-scheduler to lead")
        refused_before = refusals(control_plane)
        with (
            volume_controllers(control_plane.api),
            scheduler_process(command, user, tmp_path / "scheduler.log") as (replacement, port),
        ):
            wait_for_probes(container, replacement, port)
            assert "acquired the leader lease" not in replacement.log.read_text()
            stock.stop()
            place_all_kinds(control_plane, "default-scheduler")
            assert "forbidden" not in replacement.log.read_text().lower()
    assert refusals(control_plane) == refused_before

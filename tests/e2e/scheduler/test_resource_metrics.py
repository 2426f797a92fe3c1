"""/metrics/resources has the same series as kube-scheduler's."""

import re
import ssl
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.deployments import scheduler_process
from tests.e2e.support.programs.service import PROGRAM
from tests.e2e.support.waiting import wait_until

PATH = "/metrics/resources"
# Amounts by metric and labels.
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
LABEL = re.compile(r'(\w+)="([^"]*)"')
RUNTIME: Object = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "heavy"},
    "handler": "heavy",
    "overhead": {"podFixed": {"cpu": "120m", "memory": "64Mi"}},
}


def container(name: str, requests: dict[str, str], limits: dict[str, str], **more: Any) -> Object:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "registry.example/main:1", "resources": resources, **more}


def pods() -> list[Object]:
    ours: dict[str, Any] = {"schedulerName": "ours"}
    stock: dict[str, Any] = {"schedulerName": "stock"}
    sidecar = container("sidecar", {"cpu": "100m"}, {"cpu": "200m"}, restartPolicy="Always")
    setup = container("setup", {"cpu": "3"}, {"cpu": "3500m", "ephemeral-storage": "1k"})
    huge = {"hugepages-2Mi": "4Mi", "memory": "1Gi"}
    return [
        pod("nothing", **ours),
        pod("requests", requests={"cpu": "250m", "memory": "1.5Gi", "ephemeral-storage": "2M"}, **ours),
        pod("peak", initContainers=[sidecar, setup], containers=[container("c", {"cpu": "1"}, {"cpu": "2"})], **stock),
        pod("huge", containers=[container("c", huge, huge)], priorityClassName="system-cluster-critical", **stock),
        pod("overhead", containers=[container("c", {"cpu": "1"}, {"cpu": "2"})], runtimeClassName="heavy", **ours),
        pod("gpu", containers=[container("c", {}, {"nvidia.com/gpu": "2"})], **stock),
        pod("waits", requests={"cpu": "100"}, **ours),
        pod("stranger", requests={"cpu": "1"}, schedulerName="nobody"),
        pod("ended", requests={"cpu": "1"}, nodeName="a"),
    ]


def series(port: int) -> Series:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with httpx.Client(verify=context, trust_env=False) as client:
        lines = client.get(f"https://127.0.0.1:{port}{PATH}").raise_for_status().text.splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            head, _, amount = line.rpartition(" ")
            found[head.partition("{")[0], frozenset(LABEL.findall(head))] = float(amount)
    return found


def test_both_show_the_same_series(empty_cluster: ControlPlane, controlplane: Path, tmp_path: Path) -> None:
    api = empty_cluster.api
    user = empty_cluster.user_kubeconfig("system:kube-scheduler")

    def command(name: str, program: list[str | Path]) -> list[str | Path]:
        file = tmp_path / f"{name}.yaml"
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": name}],
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(user)},
        }
        file.write_text(yaml.safe_dump(configuration))
        return [*program, f"--config={file}", f"--authorization-always-allow-paths={PATH},/readyz"]

    wanted = node("a", cpu="64")
    for amounts in ("capacity", "allocatable"):
        wanted["status"][amounts] |= {"hugepages-2Mi": "1Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"}
    api.create(wanted, RUNTIME)
    created = api.create(*pods())
    api.patch(created[-1], patch={"status": {"phase": "Succeeded"}}, subresource="status")
    try:
        with (
            scheduler_process(command("ours", [PROGRAM, "schedule"]), user, tmp_path / "ours.log") as (_, port),
            scheduler_process(command("stock", [controlplane, "kube-scheduler"]), user, tmp_path / "stock.log") as (
                _,
                stock_port,
            ),
        ):

            def bound() -> bool:
                return sum("nodeName" in found["spec"] for found in api.list_all("Pod")) == len(created) - 2

            wait_until(bound, "the pods to be bound")

            def both() -> list[Series]:
                return [series(port), series(stock_port)]

            wait_until(lambda: both()[0] == both()[1] != {}, "both to show the same")
            found = both()[0]
        names = {dict(labels)["pod"] for _, labels in found}
        assert names == {each["metadata"]["name"] for each in created} - {"nothing", "ended"}
        assert {name for name, _ in found} == {"kube_pod_resource_request", "kube_pod_resource_limit"}
        assert {dict(labels)["node"] for _, labels in found} == {"a", ""}
    finally:
        api.delete(RUNTIME)

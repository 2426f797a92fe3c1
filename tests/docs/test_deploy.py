"""What docs/deploy.md says about the manifests in deploy/ is so."""

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_service.cluster.state.cluster import Cluster
from extender_service.command.cli import parser
from extender_service.config.loading import load_config
from extender_service.config.rules import NEWEST_RULES
from extender_service.extender.reporting.call_metrics import CallMetrics
from extender_service.kube.parsing.manifests import KINDS
from extender_service.kube.parsing.quantities import parse_quantity
from extender_service.kube.resources import api_resources
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.watching.watch_state import WatchState
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.scheduler.metrics.prometheus import SchedulerMetrics, SchedulerState
from extender_service.scheduling.unsupported import RESOURCE_CLAIMS, SCHEDULING_GROUP, WORKLOAD_REF
from extender_service.simulation import Simulation
from tests.support.clock import Clock
from tests.support.clusters.scheduler_world import SchedulerWorld, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.samples import Samples, scrape

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text()
PAIRS = ("scheduler", "second-scheduler", "beside-pair")
RESOURCES = [found for found in vars(api_resources).values() if isinstance(found, Resource)]
# kubectl's.
SHORT_NAMES = {
    "ns": "namespaces",
    "pdb": "poddisruptionbudgets",
    "pv": "persistentvolumes",
    "pvc": "persistentvolumeclaims",
    "rc": "replicationcontrollers",
    "rs": "replicasets",
    "sc": "storageclasses",
    "sts": "statefulsets",
    "svc": "services",
}

Manifest = dict[str, Any]


def pod_template(base: str, workload: str = "deployment") -> Manifest:
    """What the pods of a base are made of."""
    template: Manifest = yaml.safe_load((DEPLOY / base / f"{workload}.yaml").read_text())["spec"]["template"]
    return template


def static_pod() -> Manifest:
    manifest: Manifest = yaml.safe_load((DEPLOY / "static-pod" / "kube-scheduler.yaml").read_text())
    return manifest


def replica(base: str, name: str, **spec: str) -> Manifest:
    """A pod of a Deployment, as its ReplicaSet makes it."""
    template = pod_template(base)
    labels = {**template["metadata"]["labels"], "pod-template-hash": "1"}
    metadata = {"namespace": "default", "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"], **spec}}


def node(name: str, *, cordoned: bool = False, system: str = "linux") -> Manifest:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": system}},
        "spec": {"unschedulable": True, "taints": [taint]} if cordoned else {},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


async def placed(tmp_path: Path, *items: Manifest) -> dict[str, str]:
    """The node of each pod that was pending, empty if it goes on waiting."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    async with Simulation(files=[file]) as simulation:
        async with asyncio.timeout(20):
            await simulation.settle()
        return {outcome.name: outcome.node for outcome in simulation.outcomes()}


@pytest.mark.parametrize("base", PAIRS)
@in_event_loop
async def test_a_pod_of_a_drained_node_waits_instead_of_joining_the_other_one(tmp_path: Path, base: str) -> None:
    first, second = replica(base, "first", nodeName="b"), replica(base, "second")
    assert await placed(tmp_path, node("a", cordoned=True), node("b"), first, second) == {"second": ""}
    assert await placed(tmp_path, node("a"), node("b"), first, second) == {"second": "a"}


@pytest.mark.parametrize("base", PAIRS)
@in_event_loop
async def test_a_single_pod_runs_on_a_single_node(tmp_path: Path, base: str) -> None:
    assert await placed(tmp_path, node("a"), replica(base, "only")) == {"only": "a"}


@pytest.mark.parametrize("base", PAIRS)
@in_event_loop
async def test_no_pod_goes_to_a_node_that_cannot_run_it(tmp_path: Path, base: str) -> None:
    first, second = replica(base, "first", nodeName="a"), replica(base, "second")
    assert await placed(tmp_path, node("a"), node("b", system="windows"), first, second) == {"second": ""}


@pytest.mark.parametrize("selecting", ["service.yaml", "pod-disruption-budget.yaml"])
def test_beside_what_selects_the_pair_leaves_out_pods_of_a_daemonset_of_before(selecting: str) -> None:
    """Both have one namespace. For a pod of a DaemonSet, the controller of PodDisruptionBudgets allows no eviction."""
    selector = yaml.safe_load((DEPLOY / "beside-pair" / selecting).read_text())["spec"]["selector"]
    selected = set(selector.get("matchLabels", selector).items())
    assert selected <= pod_template("beside-pair")["metadata"]["labels"].items()
    assert not selected <= pod_template("beside", "daemonset")["metadata"]["labels"].items()


def containers() -> Iterator[tuple[str, Manifest]]:
    """Each container of each way to deploy, sidecars included, with the name of the folder."""
    for file in (*DEPLOY.glob("*/deployment.yaml"), *DEPLOY.glob("*/daemonset.yaml")):
        spec = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield file.parent.name, container
    yield "static-pod", static_pod()["spec"]["containers"][0]


def test_no_probe_ends_a_container_that_only_waits_for_the_api_server() -> None:
    """One that is not live does not answer /livez; one that waits for the API server is not ready."""
    waiting = {
        (base, container["name"], kind)
        for base, container in containers()
        for kind in ("startupProbe", "livenessProbe")
        if container[kind]["httpGet"]["path"] != "/livez"
    }
    # kube-scheduler starts once its sidecar has listed the cluster.
    assert waiting == {("second-scheduler", "extender-service", "startupProbe")}


def test_a_kube_scheduler_whose_service_is_down_or_hangs_is_ended() -> None:
    ports = {
        container["name"]: container["livenessProbe"]["httpGet"]["port"]
        for base, container in containers()
        if base == "second-scheduler"
    }
    assert ports["kube-scheduler"] == ports["extender-service"]


def measured(name: str) -> int:
    """What docs/performance.md has of kube-scheduler in a row about memory."""
    page = (ROOT / "docs" / "performance.md").read_text()
    [mebibytes] = re.findall(rf"^\| {name} \| [\d,]+ \| ([\d,]+) \|", page, re.MULTILINE)
    return parse_quantity(f"{mebibytes.replace(',', '')}Mi")


def test_kube_scheduler_has_the_memory_to_list_the_largest_cluster_again() -> None:
    [container] = pod_template("second-scheduler")["spec"]["containers"]
    requested, limit = (parse_quantity(container["resources"][kind]["memory"]) for kind in ("requests", "limits"))
    [variable] = container["env"]
    assert variable["name"] == "GOMEMLIMIT"
    go_limit = parse_quantity(variable["value"].removesuffix("B"))  # Go writes 1GiB where Kubernetes writes 1Gi
    assert measured("MiB, idle") < requested
    assert 2 * measured("MiB, loaded") < go_limit < limit


@pytest.mark.parametrize("base", ["scheduler", "second-scheduler"])
def test_the_api_server_gives_the_account_the_priority_of_kube_scheduler(base: str) -> None:
    objects = [*yaml.safe_load_all((DEPLOY / base / "rbac.yaml").read_text())]
    [account] = [found["metadata"] for found in objects if found["kind"] == "ServiceAccount"]
    schemas = [found["spec"] for found in objects if found["kind"] == "FlowSchema"]
    lease, rest = sorted(schemas, key=lambda schema: int(schema["matchingPrecedence"]))

    # 9000 is service-accounts, which all other accounts match.
    assert lease["matchingPrecedence"] < rest["matchingPrecedence"] < 9000
    levels = [schema["priorityLevelConfiguration"]["name"] for schema in (lease, rest)]
    assert levels == ["leader-election", "workload-high"]
    for schema in schemas:
        [rule] = schema["rules"]
        assert rule["subjects"] == [{"kind": "ServiceAccount", "serviceAccount": account}]
    assert lease["rules"][0]["resourceRules"][0]["namespaces"] == [account["namespace"]]


def test_the_static_pod_refers_to_no_object_of_the_api() -> None:
    """Kubelets refuse a static pod that does."""
    spec = static_pod()["spec"]
    assert {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}} == {"hostPath", "emptyDir"}
    assert not spec.keys() & {"serviceAccountName", "imagePullSecrets", "resourceClaims"}
    assert not [container for container in spec["containers"] if container.keys() & {"env", "envFrom"}]


def test_the_static_pod_has_options_of_the_program_and_the_files_that_they_name() -> None:
    [container] = static_pod()["spec"]["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    named = re.findall(r"=(/\S+)", " ".join(container["args"]))
    assert named
    assert set(named) <= mounted
    parser().parse_args([word.replace("/etc/kubernetes", str(DEPLOY / "static-pod")) for word in container["args"]])


def test_the_static_pod_uses_the_lease_and_the_profile_of_kube_scheduler() -> None:
    config = load_config(DEPLOY / "static-pod" / "whole-scheduler.yaml", ARGS_TYPES)
    assert (config.leader_election.resource_namespace, config.leader_election.resource_name) == (
        "kube-system",
        "kube-scheduler",
    )
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


def test_before_kube_scheduler_is_replaced_one_looks_for_each_field_that_is_not_judged() -> None:
    [commands] = re.findall(r"^ +```\n( +kubectl get resourceclaims,.*?)^ +```$", PAGE, re.MULTILINE | re.DOTALL)
    for path in (RESOURCE_CLAIMS, SCHEDULING_GROUP, WORKLOAD_REF):
        assert f"{path.rpartition('.')[2]}:" in commands
    assert "|deviceclass.resource.kubernetes.io/|" in commands  # extended resources of classes without such a name


def test_the_kinds_that_plugins_beside_kube_scheduler_read_are_those_of_the_table() -> None:
    head, table = re.findall(r"^ +\| plugin (\|.*\n)[ |-]*\n((?: +\|.*\n)+)", PAGE, re.MULTILINE)[0]
    groups = ["" if group == 'core group (`""`)' else group.strip("`") for group in cells(head)]
    documented: dict[str, set[tuple[str, str]]] = {}
    for names, *columns in (cells(row) for row in table.splitlines()):
        kinds = {(group, kind) for group, listed in zip(groups, columns, strict=True) for kind in names_in(listed)}
        documented |= dict.fromkeys(names_in(names), kinds)
    del documented["your own"]

    resources = {found.type: (found.group, found.plural) for found in RESOURCES}
    read = {plugin.name: plugin.reads_in(NEWEST_RULES) - {PodDisruptionBudget} for plugin in IN_TREE}
    assert documented == {name: {resources[kind] for kind in kinds} for name, kinds in read.items() if kinds}


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def names_in(cell: str) -> list[str]:
    return [name for name in cell.split(", ") if name]


@pytest.mark.parametrize("page", ["README.md", "docs/deploy.md"])
def test_kubectl_is_asked_for_every_kind_that_a_cluster_file_may_have(page: str) -> None:
    [asked] = re.findall(r"kubectl get -A -o json > cluster.json \\\n *(\S+)\n", (ROOT / page).read_text())
    plurals = {found.type: found.plural for found in RESOURCES}
    assert {SHORT_NAMES.get(name, name) for name in asked.split(",")} == {plurals[kind] for kind in KINDS.values()}


def test_each_build_of_the_page_has_a_tag_of_its_own() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\ntag={version}-$(git rev-parse --short HEAD)\n" in PAGE
    tags = set(re.findall(r"(?:registry\.example/extender-service:|newTag: (?!v))([\w.-]+)", PAGE))
    assert [tag.rpartition("-")[0] for tag in tags] == [version]


def test_only_serve_has_a_limit_to_the_age_of_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser().parse_args(["serve", "--stale-limit=30s"]).stale_limit == 30.0
    with pytest.raises(SystemExit):
        parser().parse_args(["schedule", "--stale-limit=30s"])
    assert "there is no option --stale-limit" in capsys.readouterr().err


def all_samples() -> Samples:
    """What scrapes of both programs show, with each label that there can be."""
    clock, world = Clock(), SchedulerWorld(make_node("a"))
    registry = MetricsRegistry(
        "", Cluster(), {"nodes": WatchState(clock())}, events=dict.fromkeys(("written", "failed", "dropped"), 0)
    )
    registry.show_not_judged({RESOURCE_CLAIMS: 1})
    CallMetrics(registry)
    failed = QueuedPodInfo(whole(make_pod("p")), clock(), key="default/p")
    SchedulerMetrics(registry.prometheus, clock).failed(failed, is_unschedulable=False)
    registry.prometheus.register(SchedulerState(world.queue.pending_counts, dict, int, bool, int))
    return scrape(registry)


def test_alerts_are_about_metrics_and_labels_that_there_are() -> None:
    _, _, section = PAGE.partition("\n### What to alert on\n")
    expressions = re.findall(r"^\| `(.+?)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert len(expressions) == 7
    shown: dict[str, set[tuple[str, str]]] = {}
    for name, labels in all_samples():
        shown.setdefault(name, set()).update(labels)
    of_prometheus = {"namespace", "pod"}
    for expression in expressions:
        selected = re.findall(r"\b((?:extender_service|leader_election|scheduler)_\w+)(?:\{(.*?)\})?", expression)
        assert selected
        # Other programs of a control plane have leases, too.
        assert "sum(leader" not in expression or 'name="kube-scheduler"' in expression
        for name, matchers in selected:
            wanted = set(re.findall(r'(\w+)!?="(.*?)"', matchers))
            assert {label for label in wanted if label[0] not in of_prometheus} <= shown[name], expression
        there_are = {label for name, _ in selected for label, _ in shown[name]}
        grouped = {label for listed in re.findall(r"\b(?:by|on) \((.*?)\)", expression) for label in listed.split(", ")}
        assert grouped <= there_are | of_prometheus, expression


def test_after_an_upgrade_of_the_cluster_each_workload_can_be_restarted() -> None:
    restarted = re.findall(r"^kubectl -n (\S+) rollout restart (\w+)/(\S+) +# deploy/(\S+)$", PAGE, re.MULTILINE)
    workloads = []
    for file in (*DEPLOY.glob("*/deployment.yaml"), *DEPLOY.glob("*/daemonset.yaml")):
        metadata = yaml.safe_load(file.read_text())["metadata"]
        workloads.append((metadata["namespace"], file.stem, metadata["name"], file.parent.name))
    assert sorted(restarted) == sorted(workloads)

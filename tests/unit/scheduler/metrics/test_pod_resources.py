"""Requests and limits of pods, as kube-scheduler's /metrics/resources shows them."""

from typing import Any

import msgspec
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.kube.resources.pods_by_need import pods_by_need
from extender_service.kube.types.keys import key_of
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod

RESOURCE = pods_by_need(["default-scheduler"])


def container(requests: dict[str, str], limits: dict[str, str], **more: object) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}, **more}


def shown(name: str, spec: dict[str, Any], uid: str = "", phase: str = "Running") -> Any:
    """A pod as the watch of the scheduler decodes it."""
    pod = {
        "metadata": {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "resourceVersion": "1"},
        "spec": {"schedulerName": "default-scheduler", "priority": 7, **spec},
        "status": {"phase": phase},
    }
    return RESOURCE.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": pod})).object


class World:
    def __init__(self, minor: int = 31) -> None:
        self.cluster = Cluster(rules_of(minor))
        self.cluster.apply_node(make_node("a"))
        self.pending: set[str] = set()
        self.metrics = PodResourceMetrics(self.cluster, self.pending.__contains__)

    def show(self, *pods: Any) -> None:
        for pod in pods:
            self.cluster.apply_pod(pod)
            self.metrics.note(pod)

    def series(self) -> list[str]:
        return [line for line in "".join(self.metrics.exposition()).splitlines() if not line.startswith("#")]

    def of(self, pod: str) -> dict[tuple[str, str, str], str]:
        """Amounts by metric, resource and unit."""
        found = {}
        for line in self.series():
            name, _, rest = line.partition("{")
            labels, _, amount = rest.rpartition("} ")
            by_label = dict(part.split("=") for part in labels.replace('"', "").split(","))
            if by_label["pod"] == pod:
                found[name.removeprefix("kube_pod_resource_"), by_label["resource"], by_label["unit"]] = amount
        return found


def test_a_series_has_the_labels_of_kube_scheduler() -> None:
    world = World()
    world.show(shown("web", {"nodeName": "a", "containers": [container({"cpu": "1500m"}, {})]}))
    labels = (
        'namespace="shop",pod="web",node="a",scheduler="default-scheduler",priority="7",resource="cpu",unit="cores"'
    )
    assert "".join(world.metrics.exposition()).splitlines() == [
        "# HELP kube_pod_resource_limit Resource limits of each pod that has not ended.",
        "# TYPE kube_pod_resource_limit gauge",
        "# HELP kube_pod_resource_request Resources that each pod requests that has not ended.",
        "# TYPE kube_pod_resource_request gauge",
        f"kube_pod_resource_request{{{labels}}} 1.5",
    ]


@pytest.mark.parametrize("node_name", ["", "a"])
def test_requests_and_limits_are_those_that_the_pod_needs_at_its_peak(node_name: str) -> None:
    world = World()
    sidecar = container({"cpu": "100m"}, {"cpu": "200m"}, restartPolicy="Always")
    spec = {
        "nodeName": node_name,
        "containers": [
            container({"cpu": "250u", "memory": "1Gi", "hugepages-2Mi": "2Mi"}, {"memory": "2Gi"}),
            container({"cpu": "1", "nvidia.com/gpu": "1"}, {"cpu": "0", "nvidia.com/gpu": "1"}),
        ],
        "initContainers": [sidecar, container({"cpu": "3"}, {"cpu": "4", "ephemeral-storage": "1k"})],
        "overhead": {"cpu": "10m", "memory": "1Mi", "example.com/dongle": "1"},
    }
    world.show(shown("web", spec))
    assert world.of("web") == {
        ("request", "cpu", "cores"): "3.11",
        ("request", "memory", "bytes"): "1074790400.0",
        ("request", "hugepages-2Mi", "bytes"): "2097152.0",
        ("request", "nvidia.com/gpu", ""): "1.0",
        ("request", "example.com/dongle", ""): "1.0",
        # Overhead counts only beside a limit.
        ("limit", "cpu", "cores"): "4.21",
        ("limit", "memory", "bytes"): "2148532224.0",
        ("limit", "ephemeral-storage", "bytes"): "1000.0",
        ("limit", "nvidia.com/gpu", ""): "1.0",
    }


def test_a_pod_that_has_gone_or_ended_has_no_series() -> None:
    world = World()
    spec = {"nodeName": "a", "containers": [container({"cpu": "1"}, {})]}
    ended, gone, stays = (shown(name, spec) for name in ("ended", "gone", "stays"))
    world.show(ended, gone, stays)
    world.show(shown("ended", spec, phase="Succeeded"))
    world.cluster.remove_pod(key_of(gone))
    assert [series.partition("pod=")[2][:7] for series in world.series()] == ['"stays"']


def test_a_pod_in_the_place_of_another_shows_its_own_requests() -> None:
    world = World()
    old = shown("old", {"nodeName": "a", "containers": [container({"cpu": "1"}, {})]})
    new = shown("new", {"nodeName": "a", "containers": [container({"cpu": "2"}, {})]})
    world.show(old)
    world.cluster.remove_pod(key_of(old))
    world.cluster.apply_pod(new)
    assert world.series() == []  # not noted yet
    world.show(new)
    assert world.of("new") == {("request", "cpu", "cores"): "2.0"}


def test_labels_are_escaped_and_a_pending_pod_has_no_node() -> None:
    world = World()
    world.pending.add("shop/web")
    world.show(shown("web", {"schedulerName": 'a"b\\\n', "containers": [container({"cpu": "1"}, {})]}))
    [series] = world.series()
    assert 'node="",scheduler="a\\"b\\\\\\n"' in series


def test_the_node_of_a_binding_adds_no_series() -> None:
    world = World()
    forged = 'a"} 0\nkube_pod_resource_request{namespace="other",pod="p\\'
    world.show(shown("web", {"nodeName": forged, "containers": [container({"cpu": "1"}, {})]}))
    [series] = world.series()
    assert 'node="a\\"} 0\\nkube_pod_resource_request{namespace=\\"other\\",pod=\\"p\\\\",scheduler=' in series


@in_event_loop
async def test_many_pods_come_in_parts() -> None:
    world = World()
    spec = {"nodeName": "a", "containers": [container({"cpu": "1"}, {"cpu": "1"})]}
    world.show(*(shown(f"p{number}", spec) for number in range(1200)))
    parts = list(world.metrics.exposition())
    assert len(parts) > 6
    assert sum(part.count("\nkube_pod") + part.startswith("kube_pod") for part in parts) == 2400


def test_the_lines_of_one_pod_come_in_parts_too() -> None:
    world = World()
    resources = {f"example.com/r{number}": "1" for number in range(500)}
    # An API server of 1.31 takes such a binding.
    forged = "n" * 100_000
    world.show(shown("web", {"nodeName": forged, "containers": [container(resources, {})]}))
    longest, lines = 0, 0
    for part in world.metrics.exposition():
        longest = max(longest, len(part))
        lines += part.count("} 1.0\n")
    assert lines == 500
    assert longest < 400_000


def test_many_slots_without_a_pod_come_in_parts_too() -> None:
    world = World()
    spec = {"nodeName": "a", "containers": [container({"cpu": "1"}, {})]}
    pods = [shown(f"p{number}", spec) for number in range(1200)]
    world.show(*pods)
    for pod in pods:
        world.cluster.remove_pod(key_of(pod))
    assert [*world.metrics.exposition()].count("") == 6


@in_event_loop
async def test_the_handlers_show_each_pod_once_also_while_it_is_bound() -> None:
    world = SchedulerWorld(make_node("a"))
    pod = make_pod("p", requests={"cpu": "1"})
    world.create(pod)
    lines = "".join(world.resources.exposition())
    assert 'pod="p",node="",' in lines
    world.attempt_all()
    assert lines == "".join(world.resources.exposition())
    await world.scheduler.close()
    world.show_bound()
    lines = "".join(world.resources.exposition())
    assert lines.count('pod="p",node="a",') == 1
    assert 'node=""' not in lines


@pytest.mark.parametrize("is_pending", [False, True])
def test_what_a_pod_requests_as_a_whole_is_shown_from_1_32_on(is_pending: bool) -> None:
    spec = {
        "containers": [container({"cpu": "1", "example.com/gpu": "1"}, {"cpu": "2", "memory": "1Gi"})],
        "resources": {"requests": {"cpu": "3", "example.com/gpu": "9"}, "limits": {"cpu": "4"}},
        "overhead": {"cpu": "500m"},
        **({} if is_pending else {"nodeName": "a"}),
    }
    oldest, later = World(31), World(32)
    for world in (oldest, later):
        world.show(shown("p", spec))
    gpu = ("request", "example.com/gpu", "")
    memory = ("limit", "memory", "bytes")
    cpu, limit = ("request", "cpu", "cores"), ("limit", "cpu", "cores")
    assert oldest.of("p") == {cpu: "1.5", gpu: "1.0", limit: "2.5", memory: "1073741824.0"}
    assert later.of("p") == {cpu: "3.5", gpu: "1.0", limit: "4.5", memory: "1073741824.0"}

"""Nodes come, change and go while pods are placed, and callers ask about pods that do not exist."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

TAINT = {"key": "kept", "value": "free", "effect": "NoSchedule"}
TOLERATION = {"key": "kept", "operator": "Equal", "value": "free", "effect": "NoSchedule"}

# Three nodes without room for a pod that needs 8 CPUs, and what makes room for it.
FULL = node("full", cpu="8")
FIRST = pod("first", requests={"cpu": "8"}, nodeName="full")
CORDONED = {**node("cordoned", cpu="8"), "spec": {"unschedulable": True}}
TAINTED = node("tainted", cpu="8", taints=[TAINT])
ROOM_MAKING: dict[str, Callable[[API], object]] = {
    "node added": lambda api: api.create(node("added", cpu="8")),
    "node grown": lambda api: api.patch(FULL, patch={"status": {"allocatable": {"cpu": "16"}}}, subresource="status"),
    "node uncordoned": lambda api: api.patch(CORDONED, patch={"spec": {"unschedulable": None}}),
    "taint removed": lambda api: api.patch(TAINTED, patch={"spec": {"taints": None}}),
    "pod deleted": lambda api: api.delete(FIRST),
}


class BusyCluster:
    """Ten nodes, a service that decides alone, and waves of pods that keep it busy.

    "favourite" is a node so large and empty that every pod goes there if it may.
    """

    def __init__(self, control_plane: ControlPlane, service: Service, scheduler: Process) -> None:
        self.api = control_plane.api
        self.service = service
        self._scheduler = scheduler
        self._numbers = count()

    def change(self, apply: Callable[[], Any]) -> None:
        """Change a node in the middle of a wave of pods, and return once kube-scheduler and the service know."""
        self.api.create(*(pod(f"wave-{next(self._numbers)}", requests={"cpu": "10m"}) for _ in range(30)))
        before = self._events()
        apply()
        wait_until(lambda: all(now > then for now, then in zip(self._events(), before, strict=True)), "the change")

    def nodes_of_new_pods(self, *, cpu: str = "100m", **spec: Any) -> set[str]:
        """Create a few pods; the nodes that they go to."""
        names = [f"new-{next(self._numbers)}" for _ in range(5)]
        self.api.create(*(pod(name, requests={"cpu": cpu}, **spec) for name in names))
        wait_until(self.all_bound, "all pods to be bound")
        return {self.api.get("Pod", name, namespace="default")["spec"]["nodeName"] for name in names}

    def all_bound(self) -> bool:
        return not self.api.list_all("Pod", field_selector="spec.nodeName=")

    def _events(self) -> tuple[float, float]:
        return (
            self.service.metric("extender_service_watch_events_total", resource="nodes"),
            self._scheduler.log.read_text().count("event for node"),
        )


@pytest.fixture
def busy_cluster(empty_cluster: ControlPlane, tmp_path: Path) -> Iterator[BusyCluster]:
    empty_cluster.api.create(*(node(f"steady-{number}") for number in range(10)))
    with serving(empty_cluster, tmp_path) as (service, scheduler):
        yield BusyCluster(empty_cluster, service, scheduler)


def test_changes_of_a_node_count_from_the_next_decision_on(busy_cluster: BusyCluster) -> None:
    api = busy_cluster.api
    favourite = node("favourite", cpu="64", memory="256Gi", pods="500")

    busy_cluster.change(lambda: api.create(favourite))
    assert busy_cluster.nodes_of_new_pods() == {"favourite"}

    busy_cluster.change(lambda: api.patch(favourite, patch={"spec": {"unschedulable": True}}))
    assert "favourite" not in busy_cluster.nodes_of_new_pods()

    busy_cluster.change(lambda: api.patch(favourite, patch={"spec": {"unschedulable": None, "taints": [TAINT]}}))
    assert "favourite" not in busy_cluster.nodes_of_new_pods()
    assert busy_cluster.nodes_of_new_pods(tolerations=[TOLERATION]) == {"favourite"}

    busy_cluster.change(lambda: api.patch(favourite, patch={"spec": {"taints": None}}))
    assert busy_cluster.nodes_of_new_pods() == {"favourite"}

    grown = {"status": {"allocatable": {"cpu": "512"}, "capacity": {"cpu": "512"}}}
    busy_cluster.change(lambda: api.patch(favourite, patch=grown, subresource="status"))
    assert busy_cluster.nodes_of_new_pods(cpu="80") == {"favourite"}
    assert violations(api.list_all("Node"), api.list_all("Pod")) == []

    busy_cluster.change(lambda: api.delete(favourite))
    assert "favourite" not in busy_cluster.nodes_of_new_pods()


@pytest.mark.parametrize("event", ROOM_MAKING)
def test_a_refused_pod_is_placed_as_soon_as_there_is_room(busy_cluster: BusyCluster, event: str) -> None:
    api, service = busy_cluster.api, busy_cluster.service
    busy_cluster.change(lambda: api.create(FULL, CORDONED, TAINTED, FIRST))
    wait_until(busy_cluster.all_bound, "the wave to be bound")

    api.create(pod("second", requests={"cpu": "8"}))
    wait_until(lambda: service.requests("filter", "refused"), "the second pod to be refused")
    ROOM_MAKING[event](api)

    wait_until(busy_cluster.all_bound, "the second pod to be bound")


def test_calls_about_pods_that_do_not_exist_leave_no_trace(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(node("a", cpu="4"))
    with serving(empty_cluster, tmp_path) as (service, _):
        filling: dict[str, Any] = {"requests": {"cpu": "4"}, "host_ports": [80]}
        imagined: list[Object] = [pod(f"imagined-{number}", **filling) for number in range(2)]

        # Until it is clear that nobody binds it, the pod may be one that our watch will show in a moment.
        first, second, first_again = (
            service.call("filter", {"Pod": asked, "NodeNames": ["a"]})["NodeNames"]
            for asked in (*imagined, imagined[0])
        )
        assert (first, second, first_again) == (["a"], [], ["a"])

        wait_until(lambda: not service.metric("extender_service_expected_pods"), "the pod to be forgotten")
        api.create(pod("real", **filling))
        wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "the real pod to be bound")


@contextmanager
def serving(control_plane: ControlPlane, directory: Path) -> Iterator[tuple[Service, Process]]:
    """The service, deciding alone for a kube-scheduler."""
    with Service(directory, control_plane.kubeconfig) as service:
        configuration = schedulers.replacing(service.url, node_cache_capable=True)
        with schedulers.running(control_plane, configuration) as scheduler:
            yield service, scheduler

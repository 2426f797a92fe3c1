"""kube-scheduler with a service that is killed, that hangs, or that answers nonsense."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.e2e.support.garbage import KINDS, answering_garbage
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.pod_stream import bound
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

Fault = Callable[[Service], AbstractContextManager[None]]
# Enough for each kind of nonsense.
PODS = len(KINDS)
# What kube-scheduler says of each call that is not answered in time.
TIMED_OUT = "Client.Timeout exceeded while"


@contextmanager
def killed(service: Service) -> Iterator[None]:
    service.process.kill()
    yield
    service.start_again()


@contextmanager
def hung(service: Service) -> Iterator[None]:
    os.kill(service.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(service.process.pid, signal.SIGCONT)


@contextmanager
def replaced_by_nonsense(service: Service) -> Iterator[None]:
    service.process.kill()
    with answering_garbage(int(service.url.rpartition(":")[2])) as answered:
        yield
    assert answered.keys() == KINDS.keys()
    service.start_again()


FAULTS: tuple[Fault, ...] = (killed, hung, replaced_by_nonsense)


def test_beside_pods_are_placed_without_it(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(*(node(f"node-{number}", cpu="8") for number in range(4)))
    with (
        Service(tmp_path, empty_cluster.kubeconfig, mode="beside") as service,
        schedulers.running(
            empty_cluster, with_timeout(schedulers.beside(service.url, node_cache_capable=True), "200ms"), verbosity=5
        ) as scheduler,
    ):
        for fault in FAULTS:
            timeouts_before = scheduler.log.read_text().count(TIMED_OUT)
            with fault(service):
                create_pods(empty_cluster, fault)
                wait_until(lambda: not unbound(empty_cluster), "all pods to be bound without the service")
            if fault is hung:
                # Each pod has cost the time-out twice: for filter, and for prioritize.
                assert scheduler.log.read_text().count(TIMED_OUT) - timeouts_before >= 2 * PODS
            wait_until(service.is_ready, "the service to be back")
            wait_until_asked(service, empty_cluster, f"after-{name_of(fault)}")
        assert violations(api.list_all("Node"), api.list_all("Pod")) == []


def test_in_place_of_its_plugins_pods_wait_for_it(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    # Just room for the pods of all faults.
    api.create(*(node(f"node-{number}", cpu=str(PODS)) for number in range(len(FAULTS))))
    with (
        Service(tmp_path, empty_cluster.kubeconfig) as service,
        schedulers.running(
            empty_cluster, with_timeout(schedulers.replacing(service.url, node_cache_capable=True), "500ms")
        ),
    ):
        for number, fault in enumerate(FAULTS):
            with fault(service):
                create_pods(empty_cluster, fault)
                wait_until(lambda: all(has_been_refused(each) for each in unbound(empty_cluster)), "pods to be refused")
                assert len(bound(api)) == number * PODS
            wait_until(lambda: not unbound(empty_cluster), "all pods to be bound with the service")
            assert violations(api.list_all("Node"), api.list_all("Pod")) == []


def with_timeout(configuration: Object, timeout: str) -> Object:
    [extender] = configuration["extenders"]
    return {**configuration, "extenders": [{**extender, "httpTimeout": timeout}]}


def create_pods(control_plane: ControlPlane, fault: Fault) -> None:
    names = [f"{name_of(fault)}-{number}" for number in range(PODS)]
    control_plane.api.create(*(pod(name, requests={"cpu": "1"}) for name in names))


def name_of(fault: Fault) -> str:
    return fault.__name__.replace("_", "-")


def wait_until_asked(service: Service, control_plane: ControlPlane, prefix: str) -> None:
    """Create pods until the service has scored nodes for one; its first calls may take longer than the time-out."""
    names = (f"{prefix}-{number}" for number in itertools.count())

    def is_asked() -> bool:
        name = next(names)
        control_plane.api.create(pod(name))
        wait_until(lambda: not unbound(control_plane), "the pod to be bound")
        return any(line["pod"] == f"default/{name}" for line in service.decisions("prioritize"))

    wait_until(is_asked, "the service to be asked about a pod")


def unbound(control_plane: ControlPlane) -> list[Object]:
    return control_plane.api.list_all("Pod", field_selector="spec.nodeName=")


def has_been_refused(waiting: Object) -> bool:
    conditions = waiting["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)

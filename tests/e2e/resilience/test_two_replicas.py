"""Beside kube-scheduler, two services behind one address: either may answer, and one may be lost or replaced."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.support.balancer import Balancer
from tests.e2e.support.callers import Connection, Load, Question, load
from tests.e2e.support.mixed_cluster import mixed_nodes, mixed_pods
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.pod_stream import being_created, more_are_bound
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

# A service that is told to stop serves for three more seconds, until the balancer has noticed.
pytestmark = pytest.mark.alone

# Seconds between the calls of each caller: some are always in the middle of one, some have idle connections.
PAUSES = (0.005, 0.01, 0.02, 0.02, 0.05, 0.2, 0.5)
NODES = [f"node-{number}" for number in range(20)]


def test_after_the_same_events_they_answer_the_same(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    nodes, pods = mixed_nodes(), mixed_pods()
    with replica(empty_cluster, tmp_path / "first") as first:
        api.create(*nodes[:70])
        api.create(*placed(pods[:200], nodes[:60]))
        # What one of them has seen happen, the other one has from a list.
        with replica(empty_cluster, tmp_path / "second") as second:
            api.create(*nodes[70:])
            api.create(*placed(pods[200:300], nodes[30:90]))
            api.delete(*pods[50:100])
            api.patch(*nodes[5:15], patch={"metadata": {"labels": {"zone": "moved"}}})
            for each in (first, second):
                wait_until(partial(knows, each, nodes=100, pods=250, moved=nodes[14]), "the events")
            names = [each["metadata"]["name"] for each in nodes]
            with closing(Connection(first.url)) as one, closing(Connection(second.url)) as other:
                for wanted in pods[300:]:
                    asked = {"Pod": wanted, "NodeNames": names}
                    assert one.call("prioritize", asked) == other.call("prioritize", asked), wanted["metadata"]["name"]
                    # Which failure comes first in a map says nothing.
                    verdicts = [json.loads(each.call("filter", asked)) for each in (one, other)]
                    assert verdicts[0] == verdicts[1], wanted["metadata"]["name"]


def test_one_is_killed_and_the_calls_go_on(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    empty_cluster.api.create(*(node(name) for name in NODES))
    with (
        replica(empty_cluster, tmp_path / "first") as first,
        replica(empty_cluster, tmp_path / "second") as second,
        behind_one_address(first, second) as balancer,
        load(balancer.url, plain_questions(), PAUSES) as made,
    ):
        wait_for_more_calls(made)
        first.process.kill()
        wait_until(lambda: balancer.ready == {second.url}, "the other one to get all connections")
        # Lost are the calls that were under way there, and those that were sent there until then.
        wait_for_more_calls(made)
        lost = len(made.failures)
        wait_for_more_calls(made)

        assert len(made.failures) == lost


def test_both_are_replaced_under_load_and_no_call_fails(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(*(node(name) for name in NODES))
    with ExitStack() as services:
        old = [services.enter_context(replica(empty_cluster, tmp_path / name)) for name in ("first", "second")]
        with (
            behind_one_address(*old) as balancer,
            schedulers.running(empty_cluster, told_of_every_failure(balancer.url)),
            load(balancer.url, plain_questions(), PAUSES) as made,
            being_created(api, (pod(f"p-{number}") for number in range(2000))),
        ):
            wait_until(more_are_bound(api, 10), "pods to be bound")
            # As a Deployment with maxSurge 1 and maxUnavailable 0 does it.
            for leaving, name in zip(old, ("third", "fourth"), strict=True):
                coming = services.enter_context(replica(empty_cluster, tmp_path / name))
                balancer.add(coming.url)
                wait_until(partial(is_ready, balancer, coming), "the new one to be ready")
                wait_for_more_calls(made)
                assert leaving.process.stop() == 0
                wait_for_more_calls(made)
            wait_until(more_are_bound(api, 10), "pods to be bound")

        assert made.failures == []
        events = api.list_all("Event", namespace="default")
        assert [each["message"] for each in events if each["reason"] == "FailedScheduling"] == []


def replica(control_plane: ControlPlane, directory: Path) -> Service:
    """One of the services. Told to stop, it goes on for longer than the balancer takes to notice."""
    directory.mkdir()
    return Service(directory, control_plane.kubeconfig, mode="beside", options=["--shutdown-delay-duration=3s"])


@contextmanager
def behind_one_address(*services: Service) -> Iterator[Balancer]:
    with Balancer(*(service.url for service in services)) as balancer:
        wait_until(lambda: len(balancer.ready) == len(services), "all to be ready")
        yield balancer


def told_of_every_failure(url: str) -> Object:
    """A kube-scheduler's configuration: a call that fails shows in its pod's events."""
    configuration = schedulers.beside(url, node_cache_capable=True)
    [extender] = configuration["extenders"]
    return {**configuration, "extenders": [{**extender, "ignorable": False}]}


def plain_questions() -> list[Question]:
    asked = {"Pod": pod("asked", requests={"cpu": "1"}), "NodeNames": NODES}
    return [("filter", asked), ("prioritize", asked)]


def wait_for_more_calls(made: Load) -> None:
    """Wait until every caller, the slowest, too, has had some more answers."""
    enough = [answered + 2 for answered in made.answered]
    wait_until(lambda: all(now >= then for now, then in zip(made.answered, enough, strict=True)), "more calls")


def is_ready(balancer: Balancer, service: Service) -> bool:
    return service.url in balancer.ready


def placed(pods: Iterable[Object], nodes: list[Object]) -> list[Object]:
    """Pods that are bound already, to the nodes in turn."""
    return [
        {**each, "spec": {**each["spec"], "nodeName": nodes[number % len(nodes)]["metadata"]["name"]}}
        for number, each in enumerate(pods)
    ]


def knows(service: Service, *, nodes: int, pods: int, moved: Object) -> bool:
    """Whether a service has seen so many objects, and the node in its new zone."""
    sizes = [service.metric("scheduler_scheduler_cache_size", type=kind) for kind in ("nodes", "pods")]
    name = moved["metadata"]["name"]
    asked = {"Pod": pod("asked", nodeSelector={"zone": "moved"}), "NodeNames": [name]}
    return sizes == [nodes, pods] and service.call("filter", asked)["NodeNames"] == [name]

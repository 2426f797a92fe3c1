"""Room that `serve` keeps for a nominated pod, and its scheduler does not, is excused, and nothing else."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender_service.cluster.state.cluster import Cluster
from tests.support.clusters.queue_worlds import changed
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.simulation.process import Process
from tests.worlds.waits.waiting import Waiting

pytestmark = pytest.mark.usefixtures("stand_ins")


def put_nodes(waiting: Waiting, service: Cluster) -> None:
    """Store the nodes, of 2.5 cpus each, which the scheduler and the service know."""
    for name in ("a", "b"):
        value = {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": {"cpu": "2500m", "pods": "9"}}}
        waiting.etcd.put(NODES, name, value)
        for known in (waiting.scheduler.cluster, service):
            known.apply_node(make_node(name))


def put_pod(
    waiting: Waiting,
    name: str,
    uid: str,
    *,
    cpu: str,
    node_name: str = "",
    nominated: str = "",
    priority: int = 0,
    phase: str = "Pending",
) -> None:
    """Store a pod of the default scheduler."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    scheduler = {"schedulerName": "default-scheduler", "priority": priority}
    spec: dict[str, Any] = {**scheduler, "containers": containers, "nodeName": node_name}
    metadata = {"name": name, "namespace": "default", "uid": uid}
    status = {"nominatedNodeName": nominated, "phase": phase}
    waiting.etcd.put(PODS, f"default/{name}", {"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("changes", "is_excused"),
    [
        ({}, True),
        ({"rejected_by": "NodeResourcesFit"}, False),
        ({"has_service": False}, False),
        ({"place": ""}, False),  # the scheduler keeps the room, too
        ({"place": "a"}, False),
        ({"nominated": "b"}, False),  # so it is from v1.35 on
        ({"nominated": ""}, False),
        ({"bound_to": "b"}, False),  # that was an event, and the room is free
        ({"uid": "of-a-pod-before"}, False),
        ({"known_place": "b"}, False),  # the service chose it
        ({"cpu": "500m"}, False),  # there is room for both
        ({"fits_on": "b"}, False),
    ],
    ids=str,
)
@in_event_loop
async def test_room_for_a_pod_that_is_nominated_there_and_goes_elsewhere(
    changes: dict[str, Any], is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"rejected_by": "Extender", "has_service": True, "place": "b", "nominated": "a", "bound_to": "", "uid": "q"}
    case = {**usual, "known_place": "", "cpu": "1", "fits_on": "a", **changes}
    cluster = Cluster()
    monkeypatch.setattr("tests.worlds.waits.kept_room.service_insides", lambda _: SimpleNamespace(cluster=cluster))
    service = cast(Process, SimpleNamespace()) if case["has_service"] else None
    waiting = Waiting(33, rejected_by=case["rejected_by"], service=service)
    q = make_pod("q", uid="q", requests={"cpu": case["cpu"]})
    put_nodes(waiting, cluster)
    put_pod(waiting, "p", "uid-of-p", cpu="2")
    put_pod(waiting, "q", case["uid"], cpu=case["cpu"], node_name=case["bound_to"], nominated=case["nominated"])
    if case["place"]:
        waiting.scheduler.cluster.placements.place(q, "q", case["place"])
    if case["known_place"]:
        cluster.placements.place(q, "q", case["known_place"])
    assert waiting.is_excused(case["fits_on"]) == is_excused


@pytest.mark.parametrize(
    ("changes", "is_excused"),
    [
        ({}, True),
        ({"rejected_by": "NodeResourcesFit"}, False),
        ({"nominated": "a"}, False),  # the scheduler keeps the room, too
        ({"bound_to": "b"}, False),
        ({"phase": "Failed"}, False),
        ({"uid": "of-a-pod-before"}, False),
        ({"cpu": "500m"}, False),  # there is room for both
        ({"priority": -1}, False),
        ({"fits_on": "b"}, False),
    ],
    ids=str,
)
@in_event_loop
async def test_room_for_a_pod_that_the_service_has_nominated_itself(
    changes: dict[str, Any], is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"rejected_by": "Extender", "nominated": "", "bound_to": "", "uid": "q", "cpu": "1", "priority": 0}
    case = {**usual, "phase": "Pending", "fits_on": "a", **changes}
    cluster = Cluster()
    monkeypatch.setattr("tests.worlds.waits.kept_room.service_insides", lambda _: SimpleNamespace(cluster=cluster))
    waiting = Waiting(33, rejected_by=case["rejected_by"], service=cast(Process, SimpleNamespace()))
    q = changed(make_pod("q", uid="q", requests={"cpu": case["cpu"]}), priority=case["priority"])
    cluster.apply_pod(q)
    put_nodes(waiting, cluster)
    slot = cluster.pending_slot("q")
    assert slot is not None
    cluster.nominations.nominate_ahead(q, "q", slot, "a")
    put_pod(waiting, "p", "uid-of-p", cpu="2")
    stored = {"cpu": case["cpu"], "node_name": case["bound_to"], "nominated": case["nominated"]}
    put_pod(waiting, "q", case["uid"], priority=case["priority"], phase=case["phase"], **stored)
    assert waiting.is_excused(case["fits_on"]) == is_excused
    assert not waiting.is_excused("b")

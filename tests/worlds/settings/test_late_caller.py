"""Late calls are about pods that have gone, as they were when they waited."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.settings.late_caller import LateCaller
from tests.worlds.simulation.world import World


@pytest.fixture
def etcd() -> Etcd:
    """A cluster of one node."""
    etcd = Etcd(lambda: 0.0)
    etcd.put(NODES, "node-0", {"metadata": {"name": "node-0"}})
    return etcd


@pytest.fixture
def next_call(etcd: Etcd) -> Callable[[], tuple[str, dict[str, Any]]]:
    """What a late caller asks next."""
    return LateCaller(World(1), etcd, "10.0.0.2", 60.0)._next_call


def put(etcd: Etcd, scheduler: str = "default-scheduler", node_name: str = "") -> None:
    spec = {"schedulerName": scheduler} | ({"nodeName": node_name} if node_name else {})
    etcd.put(PODS, "default/pod", {"metadata": {"name": "pod", "uid": "uid"}, "spec": spec})


def test_it_asks_about_a_pod_that_has_gone_as_it_was_without_a_node(
    etcd: Etcd, next_call: Callable[[], tuple[str, dict[str, Any]]]
) -> None:
    put(etcd)
    asked_at = str(etcd.revision)
    assert next_call()[0] == "prioritize"
    put(etcd, node_name="node-0")
    etcd.delete(PODS, "default/pod")
    verb, arguments = next_call()
    assert (verb, arguments["NodeNames"]) == ("filter", ["node-0"])
    metadata = {"name": "pod", "uid": "uid", "resourceVersion": asked_at}
    assert arguments["Pod"] == {"metadata": metadata, "spec": {"schedulerName": "default-scheduler"}}


def test_it_does_not_ask_about_pods_of_other_schedulers(
    etcd: Etcd, next_call: Callable[[], tuple[str, dict[str, Any]]]
) -> None:
    put(etcd, scheduler="other")
    etcd.delete(PODS, "default/pod")
    assert next_call()[0] == "prioritize"


def test_it_forgets_pods_that_a_backup_may_bring_back(
    etcd: Etcd, next_call: Callable[[], tuple[str, dict[str, Any]]]
) -> None:
    put(etcd)
    backup = etcd.save()
    etcd.delete(PODS, "default/pod")
    etcd.restore(backup)
    assert next_call()[0] == "prioritize"

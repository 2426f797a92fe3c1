from collections.abc import Sequence

import pytest
from msgspec import structs

from extender_service.extender.watch_lag import WatchLag
from extender_service.kube.types.core import Pod
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.objects import make_pod, preempted


def at_version(pod: Pod, version: str) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version=version))


WEB = make_pod("web")
IMPORTANT = structs.replace(make_pod("web", nominated="a"), spec=structs.replace(make_pod("web").spec, priority=10))


@pytest.mark.parametrize(
    ("sent", "seen", "is_newer"),
    [
        ("101", "100", True),
        ("1000", "999", True),
        ("100", "100", False),
        ("99", "100", False),
        ("", "100", False),
        ("101", "", False),
        ("an-opaque-version", "100", False),
        ("9" * 5000, "100", False),
        ("²", "100", False),
    ],
)
def test_a_pod_is_newer_than_what_the_watch_has_shown(sent: str, seen: str, is_newer: bool) -> None:
    lag = WatchLag(EngineOnTwoNodes().cluster, lambda: seen)
    assert lag.is_newer(at_version(WEB, sent)) is is_newer


@pytest.mark.parametrize(
    ("sent", "seen", "has_ended"),
    [
        ("99", "100", True),
        ("100", "100", True),
        ("101", "100", False),
        ("", "100", False),
        ("99", "", False),
        ("an-opaque-version", "100", False),
    ],
)
def test_a_pod_that_the_watch_has_shown_and_does_not_know_has_ended(sent: str, seen: str, has_ended: bool) -> None:
    cluster = EngineOnTwoNodes().cluster
    lag = WatchLag(cluster, lambda: seen)
    assert lag.has_ended(at_version(WEB, sent)) is has_ended
    cluster.apply_pod(at_version(WEB, sent))
    assert not lag.has_ended(at_version(WEB, sent))


@pytest.mark.parametrize(("names", "is_behind"), [(["a", "b"], False), (["a", "new"], True)])
def test_a_node_that_is_not_known_yet_shows_that_the_watch_is_behind(names: Sequence[str], is_behind: bool) -> None:
    world = EngineOnTwoNodes()
    assert WatchLag(world.cluster).is_behind(WEB, world.engine.nodes.named(names)) is is_behind


def test_room_is_coming_while_a_preempted_pod_is_ending_on_the_nominated_node() -> None:
    world = EngineOnTwoNodes()
    lag = WatchLag(world.cluster)
    assert not lag.is_room_coming(IMPORTANT)
    world.cluster.apply_pod(make_pod("old", "a"))
    assert not lag.is_room_coming(IMPORTANT)
    world.cluster.apply_pod(preempted(make_pod("old", "a")))
    assert lag.is_room_coming(IMPORTANT)
    assert not lag.is_room_coming(make_pod("web"))
    assert not lag.is_room_coming(make_pod("equal", nominated="a"))
    world.cluster.remove_pod(("default", "old"))
    assert not lag.is_room_coming(IMPORTANT)


def test_room_is_coming_until_the_watch_has_shown_the_nomination() -> None:
    """By then, it has shown which pods had to go."""
    lag = WatchLag(EngineOnTwoNodes().cluster, lambda: "100")
    assert lag.is_room_coming(at_version(IMPORTANT, "101"))
    assert not lag.is_room_coming(at_version(IMPORTANT, "100"))


@pytest.mark.parametrize(("names", "awaits"), [(["a"], True), (["b", "a"], True), (["b"], False)])
def test_only_a_call_about_the_nominated_node_awaits_its_room(names: Sequence[str], awaits: bool) -> None:
    """Otherwise the caller itself has refused that node: its victims are still ending."""
    world = EngineOnTwoNodes(preempted(make_pod("old", "a")))
    assert WatchLag(world.cluster).awaits_room(IMPORTANT, world.engine.nodes.named(names)) is awaits

"""Users' QueueSort plugins order the queue, and none that fails loses a pod or ends the program."""

import asyncio
import logging
from typing import Any, ClassVar

import pytest

from extender_service.framework.interface import QueuedPod, QueueSort
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.objects import make_node, make_pod

NAMES = ["b", "a", "d", "c"]


class ByName(QueueSort):
    """By name, least first."""

    name: ClassVar[str] = "ByName"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return first.pod.metadata.name < second.pod.metadata.name


class Raises(ByName):
    """Fails for each pair of pods."""

    error: ClassVar[BaseException] = KeyError("priority-of-team")

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        raise self.error


class RaisesForKeys(Raises):
    """Fails for each pod."""

    def sort_key(self, queued: QueuedPod) -> Any:
        raise self.error


class Stopped(Raises):
    """Fails as the task did that it runs in the background."""

    error = asyncio.CancelledError("stopped")


class StoppedForKeys(RaisesForKeys):
    """Fails so for each pod."""

    error = asyncio.CancelledError("stopped")


class Incomparable(ByName):
    """Returns keys of many types."""

    def sort_key(self, queued: QueuedPod) -> Any:
        return {"a": 1, "b": "one", "c": None, "d": [1]}[queued.pod.metadata.name]


def attempted(plugin: type[QueueSort]) -> list[str]:
    world = SchedulerWorld()
    world = SchedulerWorld(make_node("a"), plugins={"queueSort": [(plugin(None, world.handle), 0)]})
    world.create(*[make_pod(name) for name in NAMES])
    found = []
    while (info := world.queue.pop()) is not None:
        found.append(info.pod.metadata.name)
    return found


def test_pods_are_in_the_order_of_the_plugin() -> None:
    assert attempted(ByName) == sorted(NAMES)


@pytest.mark.parametrize("plugin", [Raises, RaisesForKeys, Stopped, StoppedForKeys])
def test_pods_stay_in_the_order_in_which_they_came_where_the_plugin_fails(
    plugin: type[QueueSort], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert attempted(plugin) == NAMES
    assert [record.__dict__["plugin"] for record in caplog.records] == ["ByName"]


def test_pods_are_tried_in_any_order_where_their_keys_cannot_be_compared(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert sorted(attempted(Incomparable)) == sorted(NAMES)
    assert [record.__dict__["plugin"] for record in caplog.records] == ["ByName"]

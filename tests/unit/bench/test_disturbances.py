"""What happens in a scene while pods are bound has the effect that it is there for."""

from threading import Event
from typing import TypeVar, cast

import msgspec
import pytest

from bench.scheduler.api_servers import ApiServer
from bench.scheduler.scenes import SCENES
from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Node, Pod
from tests.e2e.support.objects import Object
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop

T = TypeVar("T")


def decoded(kind: type[T], found: Object) -> T:
    return msgspec.json.decode(msgspec.json.encode(found), type=kind)


class OneChange:
    """An API server whose changes the scheduler sees at once, and which ends a disturbance after one of them."""

    def __init__(self, world: SchedulerWorld, is_over: Event) -> None:
        self._world = world
        self._is_over = is_over

    def delete(self, *objects: Object) -> None:
        for each in objects:
            self._world.delete(decoded(Pod, each))

    def create(self, *objects: Object) -> None:
        self._world.create(*(decoded(Pod, each) for each in objects))
        self._is_over.set()


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_each_change_of_woken_has_all_pods_tried_again_that_fit_nowhere(minor: int) -> None:
    scene = SCENES["woken"](10, 30)
    world = SchedulerWorld(*(decoded(Node, node) for node in scene.nodes), rules=rules_of(minor))
    world.create(*(decoded(Pod, pod) for pod in [*scene.workload.running, *scene.workload.hopeless]))
    world.attempt_all()
    world.clock.pass_seconds(60)  # no backoff lasts as long
    assert world.where() == {"unschedulable": 6}

    is_over = Event()
    [disturb] = scene.disturbances
    disturb(cast(ApiServer, OneChange(world, is_over)), is_over)

    assert world.where() == {"active": 6}

"""Victims are deleted: in which order, and how many at once."""

import asyncio
from collections.abc import Mapping
from typing import Any

from extender_service.scheduler.eviction import MOST_VICTIMS_AT_ONCE, Evictions, Victim
from extender_service.scheduler.pod_writes import PodWrites
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod
from tests.support.scheduler_world import SchedulerWorld, turns, whole


class Api:
    """Takes patches once its gate is open, and deletions at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.under_way = 0
        self.written: list[tuple[str, str]] = []

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        self.under_way += 1
        await self.gate.wait()
        self.under_way -= 1
        self.written.append(("patch", name))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        self.written.append(("delete", name))


@in_event_loop
async def test_of_thousands_of_victims_few_are_written_about_at_once() -> None:
    api, world = Api(), SchedulerWorld()
    evictions = Evictions(api, PodWrites(asyncio.sleep), world.events.append, lambda: 0.0)
    preemptor = whole(make_pod("important"))
    profile = world.engine.profiles.of(preemptor)
    victims = [Victim("default", f"p{number}", f"uid-{number}", preempted=False) for number in range(1000)]
    storm = asyncio.gather(*(evictions.make_room(profile, preemptor, "a", [victim], []) for victim in victims))
    await turns()
    assert api.under_way == MOST_VICTIMS_AT_ONCE
    api.gate.set()
    await storm
    assert {name for verb, name in api.written if verb == "delete"} == {victim.name for victim in victims}
    assert len(api.written) == 2000
    assert len(world.events) == 1000

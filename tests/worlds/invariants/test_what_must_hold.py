"""Each invariant reports what breaks it, and nothing in a world in which all is well."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.worlds.api_server.kinds import PODS
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.what_must_hold import WhatMustHold
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.world import World

Object = dict[str, Any]


class SmallWorld:
    """A world in which nothing runs, with an API server to write to."""

    def __init__(self) -> None:
        self.world = World(1)
        self.model = ApiServer(MachineClocks(self.world.timeline).wall, Random(1))
        self.holds = WhatMustHold(self.world, self.model, [])

    def put_pod(self, name: str, node: str = "") -> None:
        spec = {"nodeName": node} if node else {}
        value = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec, "status": {}}
        self.model.etcd.put(PODS, f"default/{name}", value)


def broken(act: Callable[[SmallWorld], None]) -> list[str]:
    """What is violated after something was done."""
    small = SmallWorld()
    act(small)
    return small.holds.violations()


def test_a_pod_that_changes_its_node_was_bound_twice() -> None:
    def act(small: SmallWorld) -> None:
        small.put_pod("a", "one")
        small.put_pod("a", "two")

    assert broken(act) == ["0.000000 bound once: pod default/a was on one, and is on two now"]


def test_of_many_violations_the_first_are_named_and_the_others_counted() -> None:
    def act(small: SmallWorld) -> None:
        for number in range(13):
            small.put_pod("a", f"node-{number}")

    found = broken(act)
    assert len(found) == 11
    assert found[-1] == "bound once: 2 more"

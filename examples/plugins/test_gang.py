import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from examples.plugins.conftest import Clock
from examples.plugins.gang import GANG, SIZE, Gang, GangArgs
from extender_service.plugin_api import Code, CycleState, Pod
from extender_service.simulation import Simulation
from extender_service.testing import CycleError, Trial, make_node, make_pod


@pytest.fixture
def trial(clock: Clock) -> Trial:
    return Trial((make_node(name) for name in ("a", "b", "c")), clock=clock)


@pytest.fixture
def plugin(trial: Trial) -> Gang:
    return Gang(GangArgs(), trial.handle)


def pod(name: str, gang: str, size: str = "", *, namespace: str = "default", node_name: str = "") -> Pod:
    labels = {GANG: gang, SIZE: size} if size else {GANG: gang}
    return make_pod(name, labels=labels, namespace=namespace, node_name=node_name)


class Way:
    """Pods on their way to be bound, each in a task of its own."""

    def __init__(self, trial: Trial, plugin: Gang) -> None:
        self._trial = trial
        self._plugin = plugin
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, member: Pod, node_name: str) -> None:
        """Start to bind a pod in a task, and let the task run as far as it can without waiting."""
        self._tasks[member.metadata.name] = asyncio.create_task(self._trial.bind(self._plugin, member, node_name))
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def waiting(self) -> set[str]:
        """The names of the pods that wait in Permit."""
        return {waiting.pod.metadata.name for waiting in self._trial.handle.waiting_pods}

    async def end_of(self, name: str) -> str:
        """Return the reason why a pod was not bound; empty if it was."""
        try:
            await self._tasks[name]
        except CycleError as error:
            return str(error)
        facts = self._trial.cluster.pod(f"default/{name}")
        assert facts is not None
        assert facts.node_name
        return ""


def run(scenario: Callable[[Way], Coroutine[Any, Any, None]], trial: Trial, plugin: Gang) -> None:
    asyncio.run(scenario(Way(trial, plugin)))


def test_a_gang_is_bound_once_it_is_whole(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        await way.send(pod("1", "ring", "3"), "a")
        await way.send(pod("2", "ring", "3"), "b")
        await way.send(pod("of-two", "pair"), "b")
        assert way.waiting == {"1", "2", "of-two"}
        await way.send(pod("3", "ring", "3"), "a")
        assert [await way.end_of(name) for name in ("1", "2", "3")] == ["", "", ""]
        assert way.waiting == {"of-two"}

    run(scenario, trial, plugin)


def test_a_pod_of_no_gang_does_not_wait(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        await way.send(make_pod("web"), "a")
        assert await way.end_of("web") == ""

    run(scenario, trial, plugin)


def test_a_gang_is_of_one_namespace(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        await way.send(pod("1", "pair"), "a")
        await way.send(pod("2", "pair", namespace="other"), "a")
        assert way.waiting == {"1", "2"}

    run(scenario, trial, plugin)


def test_when_time_runs_out_for_one_all_that_wait_lose_their_places(trial: Trial) -> None:
    plugin = Gang(GangArgs(timeout_seconds=0.05), trial.handle)

    async def scenario(way: Way) -> None:
        await way.send(pod("1", "ring", "3"), "a")
        plugin.args = GangArgs()
        await way.send(pod("2", "ring", "3"), "b")
        assert "timeout after waiting 50ms at plugin Gang" in await way.end_of("1")
        assert "pod 1 of its gang lost its place" in await way.end_of("2")
        assert not len(trial.cluster.placements)

    run(scenario, trial, plugin)


def test_when_one_is_deleted_those_that_wait_lose_their_places(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        for name in "12":
            trial.cluster.apply_pod(pod(name, "ring", "3"))
            await way.send(pod(name, "ring", "3"), "a")
        trial.cluster.remove_pod(("default", "1"))
        for name in "12":
            assert "pod 1 of its gang lost its place" in await way.end_of(name)

    run(scenario, trial, plugin)


def test_a_pod_that_was_only_given_a_place_is_not_there_yet(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        trial.expect(pod("2", "pair"), "b")
        await way.send(pod("1", "pair"), "a")
        assert way.waiting == {"1"}

    run(scenario, trial, plugin)


def test_a_pod_whose_time_has_just_run_out_is_not_there_any_more(trial: Trial, plugin: Gang) -> None:
    async def scenario(way: Way) -> None:
        await way.send(pod("1", "pair"), "a")
        [waiting] = trial.handle.waiting_pods
        waiting.reject("Gang", "time is up")
        # The task of its binding has not run yet, so the pod still holds its place.
        second = pod("2", "pair")
        trial.assume(second, "b")
        status, _ = plugin.permit(CycleState(second), second, "b")
        assert status is not None
        assert status.code == Code.WAIT

    run(scenario, trial, plugin)


def test_a_pod_in_the_place_of_one_that_ended_does_not_wait(trial: Trial, plugin: Gang) -> None:
    trial.cluster.apply_pod(pod("running", "pair", node_name="a"))

    async def scenario(way: Way) -> None:
        await way.send(pod("new", "pair"), "b")
        assert await way.end_of("new") == ""

    run(scenario, trial, plugin)


def test_a_gang_that_gave_up_gives_way_for_a_while(trial: Trial, plugin: Gang, clock: Clock) -> None:
    plugin.unreserve(CycleState(pod("1", "pair")), pod("1", "pair"), "a")
    assert trial.refusals(plugin, pod("1", "pair")) == {}  # no other gang is being placed

    trial.expect(pod("other", "another"), "a")
    assert set(trial.refusals(plugin, pod("1", "pair")).values()) == {"another gang has precedence"}
    assert trial.refusals(plugin, pod("mate", "another")) == {}
    assert trial.refusals(plugin, pod("new", "third")) == {}

    clock.now += 30
    assert trial.refusals(plugin, pod("1", "pair")) == {}


def test_a_size_that_is_not_a_number_is_a_reason_to_refuse(trial: Trial, plugin: Gang) -> None:
    refusals = trial.refusals(plugin, pod("1", "pair", "two"))
    assert set(refusals.values()) == {"label example.com/gang-size is not a number"}


def test_the_whole_scheduler_binds_a_gang_with_its_last_pod_and_none_of_a_gang_that_lacks_one() -> None:
    """`extender-service schedule` runs Permit right after Reserve, for one pod after the other."""
    pods = [pod("1", "ring", "3"), pod("alone", "pair"), pod("2", "ring", "3"), pod("3", "ring", "3")]

    async def scenario() -> dict[str, str]:
        async with Simulation([make_node("a", {"pods": 10}), *pods], plugins=[Gang]) as simulation:
            await simulation.settle()
            return {member.metadata.name: simulation.node_of(member) for member in pods}

    assert asyncio.run(scenario()) == {"1": "a", "2": "a", "3": "a", "alone": ""}

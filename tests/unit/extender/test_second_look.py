import asyncio
import math
from collections.abc import Callable

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.changes import Change
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import rules_of
from extender_service.extender.second_look import PATIENCE_SECONDS, SAVED_SECONDS, SHARE, SecondLook, WaitBudget
from extender_service.extender.watch_lag import WatchLag
from extender_service.framework.cluster_event import (
    CSI_NODE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    WILD_CARD,
    ActionType,
    ClusterEvent,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, PreFilter
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.status import Rejections, Status, unschedulable
from extender_service.kube.types.core import Pod, PodResourceClaim
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from tests.support import virtual_time
from tests.support.clock import Clock
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.objects import make_node, make_pod, preempted
from tests.support.stub_plugins import make_handle, stub_cluster


def waits_until_refused(budget: WaitBudget) -> int:
    """How many calls in a row may wait for as long as one may."""
    waits = 0
    while allowance := budget.allowance():
        assert PATIENCE_SECONDS <= allowance <= SAVED_SECONDS
        budget.spend(PATIENCE_SECONDS)
        waits += 1
    return waits


def test_at_first_there_is_a_second_to_spend() -> None:
    assert waits_until_refused(WaitBudget(Clock())) == pytest.approx(SAVED_SECONDS / PATIENCE_SECONDS, abs=1)


def test_from_then_on_a_twentieth_of_wall_time() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    waits_until_refused(budget)
    waited = 0
    for _ in range(1000):
        clock.pass_seconds(0.1)
        waited += waits_until_refused(budget)
    assert waited * PATIENCE_SECONDS == pytest.approx(100 * SHARE, rel=0.02)


def test_no_more_than_a_second_is_saved_up() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    clock.pass_seconds(1_000_000)
    assert waits_until_refused(budget) <= SAVED_SECONDS / PATIENCE_SECONDS


def test_a_wait_that_took_longer_than_allowed_is_paid_back() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    budget.spend(SAVED_SECONDS + 0.5)
    clock.pass_seconds(10)
    assert budget.allowance() == 0
    clock.pass_seconds(1.01)
    assert budget.allowance() >= PATIENCE_SECONDS


LARGE = make_pod("web", requests={"cpu": "5"})
CLAIMS = structs.replace(LARGE, spec=structs.replace(LARGE.spec, resource_claims=(PodResourceClaim("gpu"),)))


def look(
    pod: Pod,
    *names: str,
    before: Callable[[EngineOnTwoNodes], None] = lambda _: None,
    meanwhile: Callable[[EngineOnTwoNodes], None],
) -> str:
    """Ask about a pod that does not fit while something happens; returns how many nodes pass, and when."""
    world = EngineOnTwoNodes(rules=rules_of(31, {"DynamicResourceAllocation": True}))
    before(world)
    second_look = SecondLook(world.cluster, WatchLag(world.cluster, lambda: "100"), Clock())

    def decide() -> Decision:
        return world.engine.decide(structs.replace(world.question(pod, *names), refuses_unsupported=True))

    async def decided() -> str:
        looking = asyncio.create_task(second_look.decide(decide(), decide, math.inf))
        await asyncio.sleep(0)
        meanwhile(world)
        decision, looked_again = await looking
        return f"{len(decision.feasible)} after a wait" if looked_again else f"{len(decision.feasible)} at once"

    return asyncio.run(decided())


def grow(world: EngineOnTwoNodes) -> None:
    world.cluster.apply_node(make_node("a", {"cpu": "8", "pods": "10"}))


def test_a_change_that_helps_is_seen() -> None:
    assert look(LARGE, "a", "b", meanwhile=grow) == "1 after a wait"


def test_the_end_of_a_nomination_is_seen() -> None:
    high = make_pod("high", requests={"cpu": "4"}, nominated="a")
    high = structs.replace(high, spec=structs.replace(high.spec, scheduler_name="default-scheduler"))
    web = make_pod("web", requests={"cpu": "4"})

    def nominate(world: EngineOnTwoNodes) -> None:
        world.cluster.apply_pod(high)

    def end(world: EngineOnTwoNodes) -> None:
        world.cluster.remove_pod(("default", "high"))

    assert look(web, "a", before=nominate, meanwhile=end) == "1 after a wait"


def test_where_nothing_helps_the_refusal_comes_after_the_wait() -> None:
    assert look(LARGE, "a", "b", meanwhile=lambda world: None) == "0 after a wait"


def test_a_node_that_goes_during_the_wait_is_not_known_in_the_answer() -> None:
    world = EngineOnTwoNodes()
    second_look = SecondLook(world.cluster, WatchLag(world.cluster, lambda: "100"), Clock())

    def decide() -> Decision:
        return world.engine.decide(world.question(LARGE, "a", "b"))

    async def decided() -> Decision:
        looking = asyncio.create_task(second_look.decide(decide(), decide, math.inf))
        await asyncio.sleep(0)
        world.cluster.remove_node("b")
        decision, _ = await looking
        return decision

    decision = asyncio.run(decided())
    asked = decision.question.nodes
    (_, positions) = next(iter(decision.verdicts.groups()))
    assert asked.view.names_at(positions) == ["a"]
    assert asked.unknown == ["b"]


def test_what_no_change_can_help_is_refused_at_once() -> None:
    assert look(CLAIMS, "a", "b", meanwhile=grow) == "0 at once"


def at_version(pod: Pod, version: str) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version=version))


NOMINATED = structs.replace(LARGE, status=structs.replace(LARGE.status, nominated_node_name="a"))
IMPORTANT = structs.replace(NOMINATED, spec=structs.replace(NOMINATED.spec, priority=10))


def waited(pod: Pod, *names: str) -> float:
    """How many seconds of its own time a call waits for room that does not come."""
    world = EngineOnTwoNodes(preempted(make_pod("old", "a")))

    def decide() -> Decision:
        return world.engine.decide(world.question(pod, *names))

    async def seconds() -> float:
        second_look = SecondLook(world.cluster, WatchLag(world.cluster, lambda: "100"), virtual_time.time)
        await second_look.decide(decide(), decide, math.inf)
        return virtual_time.time()

    return virtual_time.run(seconds())


@pytest.mark.parametrize(
    ("pod", "names", "seconds"),
    [
        pytest.param(LARGE, ("a", "b"), PATIENCE_SECONDS, id="nothing shows that the watch is behind"),
        pytest.param(LARGE, ("a", "new"), SAVED_SECONDS, id="a node that is not known yet"),
        pytest.param(at_version(LARGE, "101"), ("a", "b"), SAVED_SECONDS, id="a newer pod"),
        pytest.param(at_version(LARGE, "100"), ("a", "b"), PATIENCE_SECONDS, id="the pod as the watch has shown it"),
        pytest.param(IMPORTANT, ("a",), SAVED_SECONDS, id="the nominated node alone, whose victim is still there"),
        pytest.param(IMPORTANT, ("b",), PATIENCE_SECONDS, id="another node than the nominated one"),
        pytest.param(NOMINATED, ("a",), PATIENCE_SECONDS, id="the nominated node alone, without a victim"),
    ],
)
def test_a_call_that_shows_that_the_watch_is_behind_waits_longer(
    pod: Pod, names: tuple[str, ...], seconds: float
) -> None:
    assert waited(pod, *names) == pytest.approx(seconds)


def test_a_call_waits_no_longer_once_the_watch_has_caught_up() -> None:
    world = EngineOnTwoNodes()
    seen = "99"

    async def decided() -> float:
        nonlocal seen
        second_look = SecondLook(world.cluster, WatchLag(world.cluster, lambda: seen), virtual_time.time)
        pod = at_version(LARGE, "100")

        def decide() -> Decision:
            return world.engine.decide(world.question(pod))

        looking = asyncio.create_task(second_look.decide(decide(), decide, math.inf))
        await asyncio.sleep(0.06)
        seen = "100"
        await looking
        return virtual_time.time()

    assert virtual_time.run(decided()) == pytest.approx(0.075)


def test_no_time_is_spent_after_the_deadline() -> None:
    world = EngineOnTwoNodes()
    refused = world.engine.decide(world.question(LARGE))
    clock = Clock()
    look_again = SecondLook(world.cluster, WatchLag(world.cluster), clock).decide(refused, lambda: refused, clock() - 1)
    assert asyncio.run(look_again) == (refused, False)


class RefusesPods(PreFilter):
    """Refuses every pod."""

    name = "RefusesPods"

    def pre_filter(self, state: CycleState, pod: Pod) -> Status:
        return unschedulable("no")


class RefusesNodes(Filter):
    """Refuses every node."""

    name = "RefusesNodes"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.where(nodes.exists, unschedulable("no"))


def decisions(refuses: type[PreFilter | Filter], event: ClusterEvent | None, change: Change) -> str:
    """Ask about a pod that a plugin refuses which waits for an event; returns how often it is asked once a change
    comes."""
    cluster = stub_cluster("a")
    plugin = refuses(None, make_handle(cluster))
    plugin.retry_on = () if event is None else (event,)
    points = {"preFilter": [(plugin, 1)], "filter": [(plugin, 1)]}
    profile = Profile("default-scheduler", points)
    engine = Engine(cluster, Profiles({profile.scheduler_name: profile}), ClusterFile(cluster, []))
    asked: list[Decision] = []

    def decide() -> Decision:
        asked.append(engine.decide(Question(make_pod("web"), engine.nodes.all())))
        return asked[-1]

    async def decided() -> str:
        looking = asyncio.create_task(
            SecondLook(cluster, WatchLag(cluster), Clock()).decide(decide(), decide, math.inf)
        )
        await asyncio.sleep(0)
        cluster.changes.notify(change, ("", "x"))
        _, looked_again = await looking
        return f"{len(asked)} times" if looked_again else "at once"

    return asyncio.run(decided())


WIDGET_ADDED = ClusterEvent("widgets.v1.example.com", ActionType.ADD)


@pytest.mark.parametrize("refuses", [RefusesPods, RefusesNodes])
@pytest.mark.parametrize(
    ("event", "change", "asked"),
    [
        (ClusterEvent(NODE, ActionType.ADD), Change.NODE_ADDED, "2 times"),
        (ClusterEvent(NODE, ActionType.ADD), Change.NODE_UPDATED, "1 times"),
        (ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL), Change.NODE_UPDATED, "2 times"),
        (ClusterEvent(NODE, ActionType.DELETE), Change.NODE_REMOVED, "2 times"),
        (ClusterEvent(POD, ActionType.UPDATE_POD_LABEL), Change.POD_ADDED, "2 times"),
        (ClusterEvent(POD, ActionType.DELETE), Change.POD_REMOVED, "2 times"),
        (ClusterEvent(POD, ActionType.DELETE), Change.POD_ADDED, "1 times"),
        (ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD), Change.CLAIM, "2 times"),
        (ClusterEvent(CSI_NODE, ActionType.UPDATE), Change.CLAIM, "1 times"),
        (ClusterEvent(WILD_CARD, ActionType.ALL), Change.CSI_DRIVER, "2 times"),
        (ClusterEvent(WILD_CARD, ActionType.DELETE), Change.NODE_ADDED, "1 times"),
        (WIDGET_ADDED, ~Change(0), "at once"),
        (None, ~Change(0), "at once"),
    ],
)
def test_a_refusal_waits_for_what_the_plugin_waits_for(
    refuses: type[PreFilter | Filter], event: ClusterEvent | None, change: Change, asked: str
) -> None:
    assert decisions(refuses, event, change) == asked

"""What an attempt leaves of a pod's nominated node, what it says of the room that it found, and for which pods it makes
none, and how these wait, by release; what it logs; how long it may take."""

from typing import ClassVar

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import (
    FilterAgain,
    Permit,
    Plugin,
    PostFilter,
    PostFilterResult,
    PreBind,
    Reserve,
)
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod, PodResourceClaim
from extender_service.kube.types.pods import pod_uid
from extender_service.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from extender_service.queue.scheduling_queue import MAX_IN_UNSCHEDULABLE_SECONDS
from extender_service.scheduler.metrics.attempts import UncountedAttempts
from extender_service.scheduling.decision import Decision
from tests.support.clock import Clock
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub


@pytest.mark.parametrize(("minor", "nominated"), [(34, {"p-uid": "b"}), (35, {"p-uid": ""})])
@in_event_loop
async def test_a_failure_without_post_filter_takes_the_nominated_node_back_from_1_35_on(
    minor: int, nominated: dict[str, str]
) -> None:
    full = Stub("Full", rejects={"a": unschedulable("full")})
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(full, 0)]}, rules=rules_of(minor))
    world.create(make_pod("p", nominated="b", uid="p-uid"))
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == nominated
    [(_, _, patch)] = world.api.written
    assert ("nominatedNodeName" in patch["status"]) == (minor == 35)


@pytest.mark.parametrize("minor", [31, 36, 37])
@in_event_loop
async def test_the_event_of_a_pod_that_preempts_says_where_from_1_37_on(minor: int) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("p", requests={"cpu": "4"})
    victim = make_pod("victim", "a", requests={"cpu": "4"})
    world.create(victim, msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100)))
    world.attempt()
    await world.scheduler.close()
    [event] = [event for event in world.events if event.regarding.name == "p"]
    where = " preemption: found a potential placement for pod on node a, preempting 1 victims" if minor == 37 else ""
    assert event.note == f"0/1 nodes are available: 1 Insufficient cpu.{where}"


class CountedTries(UncountedAttempts):
    """Counts the attempts to make room."""

    def __init__(self) -> None:
        self.tries = 0

    def tried_victims(self, decision: Decision) -> None:
        self.tries += 1


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
@in_event_loop
async def test_no_room_is_made_or_kept_for_a_pod_that_is_refused_for_its_resource_claims(minor: int) -> None:
    metrics = CountedTries()
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor), metrics=metrics)
    pod = make_pod("p", nominated="a", requests={"cpu": "4"})
    spec = msgspec.structs.replace(pod.spec, priority=100, resource_claims=(PodResourceClaim("gpu"),))
    world.create(make_pod("victim", "a", requests={"cpu": "4"}), msgspec.structs.replace(pod, spec=spec))
    world.attempt()
    await world.scheduler.close()
    reason = f"pod has spec.resourceClaims, which kube-scheduler 1.{minor} judges and extender-service does not"
    assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 {reason}.")
    assert (metrics.tries, world.api.named("delete")) == (0, [])
    [(_, _, patch)] = world.api.written
    assert patch["status"]["nominatedNodeName"] is None
    assert not any(world.queue.nominator.node_of.values())


@pytest.mark.parametrize(("minor", "gates"), [(31, {"DynamicResourceAllocation": True}), (34, {}), (37, {})])
@in_event_loop
async def test_a_pod_that_is_refused_for_a_field_waits_for_the_flush_of_leftovers_and_for_no_event(
    minor: int, gates: dict[str, bool]
) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor, gates)), make_pod("p")
    spec = msgspec.structs.replace(pod.spec, resource_claims=(PodResourceClaim("gpu"),))
    world.create(msgspec.structs.replace(pod, spec=spec))
    world.attempt()
    world.node_watch.apply(make_node("b"))
    assert world.where() == {"unschedulable": 1}
    [entry] = world.queue.entries()
    assert entry.info.unschedulable_plugins == {"NotJudged"}
    world.clock.pass_seconds(MAX_IN_UNSCHEDULABLE_SECONDS + 1)
    world.queue.flush_unschedulable_leftover()
    assert world.attempt() == "p"
    assert world.where() == {"unschedulable": 1}
    await world.scheduler.close()


class Preempts(PostFilter):
    """Takes three seconds of the clock of a world, and answers as a test says."""

    name: ClassVar[str] = "Preempts"
    clock: Clock

    def __init__(self, answer: PostFilterResult) -> None:
        super().__init__(None, SchedulerWorld().handle)
        self.asked = 0
        self._answer = answer

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        self.asked += 1
        self.clock.pass_seconds(3)
        return self._answer


TIME_IS_OVER = "the time for this decision is over (--decision-timeout)"


def condition(world: SchedulerWorld) -> tuple[str, str]:
    """The reason and the message of the only condition that was written."""
    [patch] = [patch for verb, _, patch in world.api.written if verb == "patch"]
    [written] = patch["status"]["conditions"]
    return written["reason"], written["message"]


@in_event_loop
async def test_a_pod_fails_by_the_name_of_the_plugin_that_takes_too_long_and_the_next_one_is_bound() -> None:
    seconds = [5.0, 0.0]
    slow = Stub("Slow", rejects=lambda: world.clock.pass_seconds(seconds.pop(0)))
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(slow, 0), (Stub("Other"), 0)]}, decision_seconds=4)
    world.create(make_pod("slow"), make_pod("next"))
    assert world.attempt_all() == ["slow", "next"]
    await world.scheduler.close()
    assert world.api.named("bind") == ["next"]
    text = f'running "Slow" filter plugin: {TIME_IS_OVER}'
    assert condition(world) == ("SchedulerError", text)
    assert [event.note for event in world.events if event.regarding.name == "slow"] == [text]
    assert world.where() == {"backoff": 1}


@in_event_loop
async def test_no_other_node_is_looked_at_if_the_nominated_one_takes_all_the_time() -> None:
    slow = Stub("Slow", rejects=lambda: world.clock.pass_seconds(5))
    nodes = [make_node(name) for name in "abc"]
    world = SchedulerWorld(*nodes, plugins={"filter": [(slow, 0)]}, decision_seconds=4)
    world.create(make_pod("p", nominated="b"))
    world.attempt()
    await world.scheduler.close()
    assert slow.asked == [1]
    assert condition(world) == ("SchedulerError", f'running "Slow" filter plugin: {TIME_IS_OVER}')


@in_event_loop
async def test_a_pod_whose_nominated_node_cannot_be_judged_goes_elsewhere_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rejects() -> None:
        if len(broken.asked) == 1:
            raise PluginError("no answer")

    broken = Stub("Broken", rejects=rejects)
    world = SchedulerWorld(make_node("a"), make_node("b"), plugins={"filter": [(broken, 0)]})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    await world.scheduler.close()
    assert len(broken.asked) == 2
    assert world.api.named("bind") == ["p"]
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.getMessage() == "cannot evaluate the nominated node"
    fields = vars(warning)
    assert (fields["pod"], fields["node"]) == ("default/p", "a")
    assert fields["error"] == 'running "Broken" filter plugin: no answer'


def preempting(*preempts: Preempts) -> SchedulerWorld:
    """A world in which Filter takes three of four seconds, and rejects all nodes."""

    def rejects() -> dict[str, Status]:
        world.clock.pass_seconds(3)
        return {"a": unschedulable("full")}

    points: dict[str, list[tuple[Plugin, int]]] = {
        "filter": [(Stub("Full", rejects=rejects), 0)],
        "postFilter": [(plugin, 0) for plugin in preempts],
    }
    world = SchedulerWorld(make_node("a"), plugins=points, decision_seconds=4)
    for plugin in preempts:
        plugin.clock = world.clock
    return world


@in_event_loop
async def test_preemption_shares_the_time_of_the_attempt_and_its_pod_waits_as_a_rejected_one() -> None:
    first, second = (Preempts(PostFilterResult(unschedulable("no room"))) for _ in range(2))
    world = preempting(first, second)
    world.create(make_pod("p"))
    world.attempt()
    await world.scheduler.close()
    assert (first.asked, second.asked) == (1, 0)
    text = f'0/1 nodes are available: 1 full. preemption: running PostFilter plugin "Preempts": {TIME_IS_OVER}'
    assert condition(world) == ("Unschedulable", text)
    assert world.where() == {"unschedulable": 1}


@in_event_loop
async def test_an_answer_of_preemption_counts_although_it_comes_late() -> None:
    world = preempting(Preempts(PostFilterResult(Status(Code.SUCCESS), "a")))
    pod = make_pod("p")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert condition(world) == ("Unschedulable", "0/1 nodes are available: 1 full.")
    assert world.queue.nominator.node_of == {pod_uid(pod): "a"}


@in_event_loop
async def test_a_filter_plugin_that_takes_the_time_of_preemption_is_named() -> None:
    def rejects() -> dict[str, Status]:
        if len(slow.asked) > 1:
            world.clock.pass_seconds(5)
        return {"a": unschedulable("full")}

    slow = Stub("Slow", rejects=rejects)
    preemption = DefaultPreemption(DefaultPreemptionArgs(), SchedulerWorld().handle)
    plugins: dict[str, list[tuple[Plugin, int]]] = {"filter": [(slow, 0)], "postFilter": [(preemption, 0)]}
    world = SchedulerWorld(make_node("a"), plugins=plugins, decision_seconds=4)
    preemption.handle = world.handle
    pod = make_pod("p")
    world.create(
        make_pod("victim", "a"), msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100))
    )
    world.attempt()
    await world.scheduler.close()
    assert len(slow.asked) == 2
    text = f'0/1 nodes are available: 1 full. preemption: running "Slow" filter plugin: {TIME_IS_OVER}'
    assert condition(world) == ("Unschedulable", text)
    assert world.where() == {"unschedulable": 1}


class Gang(Reserve, Permit, PreBind):
    """Takes ten seconds of the clock of a world in Permit; then gives up in long loops if there is no time left."""

    name: ClassVar[str] = "Gang"
    clock: Clock

    def __init__(self, *, is_refused: bool) -> None:
        super().__init__(None, SchedulerWorld().handle)
        self.reserved: set[str] = set()
        self._is_refused = is_refused

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved.add(pod.metadata.name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        state.require_time()
        self.reserved.discard(pod.metadata.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        self.clock.pass_seconds(10)
        return None, 0

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        state.require_time()
        return unschedulable("refused") if self._is_refused else None


@pytest.mark.parametrize("is_refused", [False, True])
@in_event_loop
async def test_once_a_node_is_chosen_plugins_may_take_more_time(is_refused: bool) -> None:
    gang = Gang(is_refused=is_refused)
    points = {point: [(gang, 0)] for point in ("reserve", "permit", "preBind")}
    world = SchedulerWorld(make_node("a"), plugins=points, decision_seconds=4)
    gang.clock = world.clock
    world.create(make_pod("p"))
    world.attempt()
    await world.scheduler.close()
    assert world.api.named("bind") == ([] if is_refused else ["p"])
    assert gang.reserved == (set() if is_refused else {"p"})

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from extender_service.cluster.pods.pod_counts import PodQuery
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.node_info import NodeInfo
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.problems import ConfigError
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    Bind,
    Filter,
    Permit,
    Plugin,
    PreBind,
    PreEnqueue,
    PreFilter,
    Reserve,
)
from extender_service.framework.per_node import FilterNode
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.kube.parsing.selectors import label_set_selector
from extender_service.kube.types.core import Node, ObjectMeta, Pod, PodResourceClaim, Taint, Toleration
from extender_service.kube.types.workloads import Namespace, Service
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.simulation import PodOutcome, Simulation
from extender_service.testing import make_node, make_pod
from tests.support.event_loop import in_event_loop


def node(name: str, cpu: str = "2") -> Node:
    return make_node(name, {"cpu": cpu, "memory": "4Gi", "pods": 10}, labels={"kubernetes.io/hostname": name})


def pod(name: str, cpu: str = "1", node_name: str = "") -> Pod:
    return make_pod(name, {"cpu": cpu}, node_name=node_name)


def manifest(name: str, spec: str, labels: str = "{}", status: str = "{}") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {labels}}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}], {spec}}}
status: {status}
---
"""


async def settled(simulation: Simulation) -> list[PodOutcome]:
    async with simulation:
        async with asyncio.timeout(20):
            await simulation.settle()
        return simulation.outcomes()


async def outcomes_of(tmp_path: Path, *manifests: str, nodes: tuple[Node, ...] = ()) -> dict[str, PodOutcome]:
    file = tmp_path / "cluster.yaml"
    file.write_text("".join(manifests))
    return {outcome.name: outcome for outcome in await settled(Simulation(nodes, files=[file]))}


@in_event_loop
async def test_pods_go_where_there_is_room_and_the_others_say_why() -> None:
    found = await settled(Simulation([node("a"), pod("running", node_name="a"), pod("web"), pod("late")]))
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert found == [
        PodOutcome("default", "web", "a"),
        PodOutcome("default", "late", reason="Unschedulable", message=text),
    ]


@in_event_loop
async def test_a_simulation_that_explains_says_why_each_pod_is_where_it_is() -> None:
    objects = [node("a", cpu="3"), node("b"), pod("big", cpu="3"), pod("web"), pod("late", cpu="4")]
    big, web, late = await settled(Simulation(objects, explains=True))
    assert big == PodOutcome("default", "big", "a", message="1/2 nodes are available: 1 Insufficient cpu.")
    assert web == PodOutcome("default", "web", "b", message="1/2 nodes are available: 1 Insufficient cpu.")
    assert late.reason == "Unschedulable"
    assert [outcome.message for outcome in await settled(Simulation(objects))][:2] == ["", ""]


@in_event_loop
async def test_a_pod_that_was_tried_again_is_explained_by_the_attempt_that_placed_it(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(manifest("low", "nodeName: a, priority: 0") + manifest("high", "priority: 100"))
    [found] = await settled(Simulation([node("a", cpu="1")], files=[file], explains=True))
    assert found == PodOutcome("default", "high", "a", message="its nominated node", victims=("default/low",))


@in_event_loop
async def test_without_nodes_each_pod_waits_and_the_simulation_ends() -> None:
    [found] = await settled(Simulation([pod("web")]))
    assert found == PodOutcome("default", "web", reason="Unschedulable", message="no nodes available to schedule pods")


@in_event_loop
async def test_equal_input_has_equal_outcomes() -> None:
    objects = [*(node(f"n{number}") for number in range(20)), *(pod(f"p{number}") for number in range(20))]
    assert await settled(Simulation(objects)) == await settled(Simulation(objects))


@in_event_loop
async def test_a_pod_that_needs_another_one_beside_it_is_tried_again_once_that_is_bound(tmp_path: Path) -> None:
    term = "{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}"
    affinity = f"affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
    found = await outcomes_of(
        tmp_path,
        manifest("follower", f"priority: 10, {affinity}"),
        manifest("web", "priority: 0", labels="{app: web}"),
        nodes=(node("a"), node("b")),
    )
    assert found["follower"].node == found["web"].node != ""


@in_event_loop
async def test_preemption_deletes_a_running_pod_and_the_other_takes_its_place(tmp_path: Path) -> None:
    found = await outcomes_of(
        tmp_path,
        manifest("low", "nodeName: a, priority: 0"),
        manifest("high", "priority: 100"),
        nodes=(node("a", cpu="1"),),
    )
    assert found == {"high": PodOutcome("default", "high", "a", victims=("default/low",))}


class OnePerApp(FilterNode):
    """Lets one pod of each app go to a node."""

    name = "OnePerApp"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        app = pod.metadata.labels["app"]
        return unschedulable(TAKEN) if any(other.labels.get("app") == app for other in node.pods) else None


class OnePerAppAtOnce(Filter):
    """Does the same for all nodes together."""

    name = "OnePerAppAtOnce"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        same_app = PodQuery((PodSelector(None, label_set_selector(pod.metadata.labels)),))
        return Rejections.where(self.handle.cluster.count_pods_on(nodes, same_app) > 0, unschedulable(TAKEN))


TAKEN = "node(s) had a pod of the app"


@pytest.mark.parametrize("plugin", [OnePerApp, OnePerAppAtOnce])
@in_event_loop
async def test_a_plugin_that_looks_at_the_pods_of_nodes_sees_what_preemption_changes(plugin: type[Plugin]) -> None:
    def of_app(name: str, priority: int, node_name: str = "") -> Pod:
        return make_pod(name, {"cpu": "100m"}, labels={"app": "web"}, priority=priority, node_name=node_name)

    others = make_pod("others", {"cpu": "100m"}, labels={"app": "db"}, node_name="a")
    simulation = Simulation([node("a"), others, of_app("low", 0, "a"), of_app("equal", 0)], plugins=[plugin])
    async with simulation:
        await simulation.settle()
        simulation.create(of_app("high", 100))
        await simulation.settle()
    refused, placed = simulation.outcomes()
    assert TAKEN in refused.message
    assert placed == PodOutcome("default", "high", "a", victims=("default/low",))


@in_event_loop
async def test_a_pod_that_was_placed_and_then_preempted_is_reported() -> None:
    simulation = Simulation([node("a", cpu="1"), pod("low")])
    async with simulation:
        await simulation.settle()
        simulation.create(make_pod("high", {"cpu": "1"}, priority=100))
        await simulation.settle()
    assert simulation.outcomes() == [
        PodOutcome("default", "low", reason="Deleted", message="preempted by another pod"),
        PodOutcome("default", "high", "a", victims=("default/low",)),
    ]


@in_event_loop
async def test_pods_that_are_not_to_be_scheduled_say_so(tmp_path: Path) -> None:
    found = await outcomes_of(
        tmp_path,
        manifest("gated", "schedulingGates: [{name: example.com/quota}]"),
        manifest("other", "schedulerName: someone"),
        manifest("ended", "priority: 0", status="{phase: Succeeded}"),
        nodes=(node("a"),),
    )
    assert found == {
        "gated": PodOutcome(
            "default", "gated", reason="SchedulingGated", message="waiting for scheduling gates: [example.com/quota]"
        ),
        "other": PodOutcome(
            "default", "other", reason="OtherScheduler", message="no profile has the scheduler name 'someone'"
        ),
    }


@in_event_loop
async def test_the_builders_make_what_filters_and_gates_look_at() -> None:
    tainted = make_node("tainted", {"pods": 9}, labels={"disk": "ssd"}, taints=[Taint("gpu", effect="NoSchedule")])
    toleration = Toleration("gpu", operator="Exists")
    objects = [
        tainted,
        make_node("plain", {"pods": 9}),
        make_node("cordoned", {"pods": 9}, labels={"disk": "ssd"}, unschedulable=True),
        make_pod("picky", node_selector={"disk": "ssd"}, tolerations=[toleration]),
        make_pod("intolerant", node_selector={"disk": "ssd"}),
        make_pod("gated", scheduling_gates=["example.com/quota"]),
        make_pod("other", scheduler_name="other"),
    ]
    found = await settled(Simulation(objects))
    assert [outcome.node or outcome.reason for outcome in found] == [
        "tainted",
        "Unschedulable",
        "SchedulingGated",
        "OtherScheduler",
    ]


@in_event_loop
async def test_a_condition_of_the_file_is_not_reported_for_a_pod_that_fits(tmp_path: Path) -> None:
    stale = "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: stale}]}"
    found = await outcomes_of(tmp_path, manifest("web", "priority: 0", status=stale), nodes=(node("a"),))
    assert found == {"web": PodOutcome("default", "web", "a")}


# A plugin author's scheduler.


class Pairs(Permit):
    """Lets a pod be bound only together with another one."""

    name = "Pairs"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        waiting = list(self.handle.waiting_pods)
        if not waiting:
            return Status(Code.WAIT), 60.0
        for other in waiting:
            other.allow(self.name)
        return None, 0.0


class NotOnA(Filter):
    name = "NotOnA"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        return Rejections.where(nodes.is_named("a"), unresolvable("not on a"))


class Closed(PreEnqueue):
    name = "Closed"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unresolvable("the queue is closed")


class SlowVolumes(PreBind):
    name = "SlowVolumes"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(0.05)
        return None


class Broken(Filter):
    name = "Broken"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        raise RuntimeError("no such thing")


@in_event_loop
async def test_plugins_run_at_all_their_points_beside_the_default_ones() -> None:
    [found] = await settled(Simulation([node("a"), node("b"), pod("web")], plugins=[NotOnA]))
    assert found.node == "b"


@in_event_loop
async def test_pods_that_wait_for_each_other_in_permit_are_bound_together() -> None:
    found = await settled(Simulation([node("a"), pod("one"), pod("two")], plugins=[Pairs]))
    assert [outcome.node for outcome in found] == ["a", "a"]


@in_event_loop
async def test_a_wait_in_permit_ends_at_its_timeout_without_real_time() -> None:
    simulation = Simulation([node("a"), pod("alone")], plugins=[Pairs])
    [found] = await settled(simulation)
    assert (found.reason, found.node) == ("Unschedulable", "")
    assert "rejected due to timeout after waiting 1m0s at plugin Pairs" in found.message
    assert simulation.time.now >= 59


@in_event_loop
async def test_a_pod_that_a_plugin_keeps_from_the_queue_says_why() -> None:
    [found] = await settled(Simulation([node("a"), pod("web")], plugins=[Closed]))
    assert (found.reason, found.message) == ("SchedulingGated", "the queue is closed")


@in_event_loop
async def test_the_simulation_waits_for_a_plugin_that_takes_real_time() -> None:
    [found] = await settled(Simulation([node("a"), pod("web")], plugins=[SlowVolumes]))
    assert found.node == "a"


class Sleeper(PreBind):
    """Waits a minute before each binding."""

    name = "Sleeper"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.sleep(60)
        return None


class SleepsInTasks(Sleeper):
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.gather(self.handle.sleep(30), self.handle.sleep(60))
        return None


class SleepsInBind(Bind):
    name = "Sleeper"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.sleep(60)
        return SKIP


class GivesUp(PreBind):
    """Asks every second for a quota that never comes, and rejects the pod after half a minute."""

    name = "GivesUp"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        started = self.handle.clock()
        while self.handle.clock() < started + 30:
            await self.handle.sleep(1)
        return unschedulable(f"no quota within {self.handle.clock() - started:.0f} s")


NOTHING_ENABLED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
# Before DefaultBinder.
BINDS_FIRST = f"""{NOTHING_ENABLED}
profiles:
  - plugins:
      bind: {{disabled: [{{name: DefaultBinder}}], enabled: [{{name: Sleeper}}, {{name: DefaultBinder}}]}}
"""
SLEEPERS = pytest.mark.parametrize(
    ("plugin", "config"), [(Sleeper, ""), (SleepsInTasks, ""), (SleepsInBind, BINDS_FIRST)]
)


@SLEEPERS
@in_event_loop
async def test_time_passes_while_a_plugin_sleeps_in_a_binding(plugin: type[Plugin], config: str) -> None:
    simulation = Simulation([node("a", cpu="1"), pod("one"), pod("two")], plugins=[plugin], config=config)
    one, two = await settled(simulation)
    assert (one.node, two.node) == ("a", "")
    assert simulation.time.now >= 60


@in_event_loop
async def test_a_plugin_that_asks_again_and_again_gives_up_by_its_clock() -> None:
    [found] = await settled(Simulation([node("a"), pod("web")], plugins=[GivesUp]))
    assert (found.node, found.reason) == ("", "Unschedulable")
    assert "no quota within 30 s" in found.message


@SLEEPERS
@pytest.mark.parametrize("is_asleep", [True, False])
@in_event_loop
async def test_the_end_does_not_wait_for_a_plugin_that_sleeps_or_is_about_to(
    plugin: type[Plugin], config: str, is_asleep: bool
) -> None:
    simulation = Simulation([node("a"), pod("web")], plugins=[plugin], config=config)
    async with asyncio.timeout(20), simulation:
        while not (len(simulation._sleeps) if is_asleep else simulation._scheduler.unfinished_count):
            await asyncio.sleep(0)
    [found] = simulation.outcomes()
    assert (found.node, found.reason) == ("", "SchedulerError")
    assert found.message.endswith("the simulation has ended")
    assert simulation.time.now == 0


@in_event_loop
async def test_plugins_that_could_act_on_something_real_are_named(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation([node("a"), pod("web")], plugins=[NotOnA, Sleeper, GivesUp])
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "handle.simulated" in record.getMessage()
    assert vars(record)["plugins"] == "Sleeper,GivesUp"
    assert simulation._handle.simulated

    caplog.clear()
    Simulation(plugins=[NotOnA, Pairs, Closed])
    Simulation(plugins=[Sleeper], config=NOTHING_ENABLED)
    assert not caplog.records


@in_event_loop
async def test_a_plugin_that_always_fails_is_reported_and_does_not_go_on_for_ever() -> None:
    [found] = await settled(Simulation([node("a"), pod("web")], plugins=[Broken]))
    assert found.reason == "SchedulerError"
    assert "no such thing" in found.message


@in_event_loop
async def test_a_configuration_may_be_given_as_text() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: NotOnA}]}}}]
"""
    [found] = await settled(Simulation([node("a"), node("b"), pod("web")], config=config, plugins=[NotOnA]))
    assert found.node == "b"


@pytest.mark.parametrize(
    ("minor", "plugin", "also_off", "message"),
    [
        (34, "DynamicResources", "", 'running Reserve plugin "DynamicResources": not found'),
        (37, "DynamicResources", "", 'running Reserve plugin "DynamicResources": not found'),
        (34, "DynamicResources", "reserve", 'running PreBind plugin "DynamicResources": not found'),
        (37, "DynamicResources", "reserve", 'running PreBindPreFlight "DynamicResources": not found'),
        (31, "VolumeBinding", "", 'running Reserve plugin "VolumeBinding": not found'),
        (37, "VolumeBinding", "", 'running Reserve plugin "VolumeBinding": not found'),
        (31, "VolumeBinding", "reserve", 'running PreBind plugin "VolumeBinding": not found'),
        (37, "VolumeBinding", "reserve", 'running PreBindPreFlight "VolumeBinding": not found'),
    ],
)
@in_event_loop
async def test_a_plugin_that_needs_its_pre_filter_fails_pods_where_that_alone_is_disabled(
    minor: int, plugin: str, also_off: str, message: str
) -> None:
    points = ["preFilter", "filter", *filter(None, [also_off])]
    off = ", ".join(f"{point}: {{disabled: [{{name: {plugin}}}]}}" for point in points)
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{{off}}}}}]
"""
    [found] = await settled(Simulation([node("a"), pod("web")], config=config, release=f"1.{minor}"))
    assert (found.node, found.reason, found.message) == ("", "SchedulerError", message)


class NeedsService(Filter):
    name = "NeedsService"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        services = self.handle.cluster.workloads.of(Service)
        return None if services else Rejections.where(nodes.exists, unschedulable("no Service"))


class ReadsService(NeedsService):
    name = "ReadsService"
    reads = frozenset({Service})


@pytest.mark.parametrize(
    ("plugin", "node_name", "message"),
    [
        (NeedsService, "", "Service objects are not watched: name the kind in the plugin's `reads`"),
        (ReadsService, "a", ""),
    ],
)
@in_event_loop
async def test_a_plugin_finds_only_kinds_that_it_or_another_one_reads(
    plugin: type[Plugin], node_name: str, message: str
) -> None:
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {{disabled: [{{name: "*"}}], enabled: [{{name: {plugin.name}}}]}}
    queueSort: {{enabled: [{{name: PrioritySort}}]}}
    bind: {{enabled: [{{name: DefaultBinder}}]}}
"""
    service = Service(ObjectMeta(name="web", namespace="default"))
    objects = [service, node("a"), pod("web")]
    [found] = await settled(Simulation(objects, config=config, plugins=[plugin]))
    assert found.node == node_name
    assert message in found.message


@in_event_loop
async def test_the_queue_does_without_namespaces_that_no_plugin_reads() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]
"""
    simulation = Simulation([node("a"), pod("large", cpu="9")], config=config, release="1.31")
    async with simulation:
        await simulation.settle()
        simulation.create(pod("running", node_name="a"))
        await simulation.settle()
    [found] = simulation.outcomes()
    assert found.reason == "Unschedulable"


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    unknown = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: NoSuchPlugin}]}}}]
"""
    with pytest.raises(ConfigError, match="NoSuchPlugin"):
        Simulation(config=unknown)
    with pytest.raises(ManifestError, match=r"none\.yaml"):
        Simulation(files=[tmp_path / "none.yaml"])
    with pytest.raises(ValueError, match=r"1\.30 is not within 1\.31 and "):
        Simulation(release="1.30")
    with pytest.raises(TypeError, match="Occurrence is not one of the kinds that scheduling reads: "):
        Simulation([Occurrence(None, "Normal", "", "", "")])  # type: ignore[list-item,arg-type]
    Simulation([Namespace()])


@in_event_loop
async def test_only_a_running_simulation_settles() -> None:
    with pytest.raises(AssertionError, match="async with Simulation"):
        await Simulation().settle()


@in_event_loop
async def test_objects_come_and_go_while_it_runs() -> None:
    async with Simulation([pod("web")]) as simulation:
        await simulation.settle()
        assert simulation.node_of(pod("web")) == ""
        simulation.create(node("late"))
        await simulation.settle()
        assert simulation.node_of(pod("web")) == "late"
        assert (simulation.bound_count, simulation.asked_count) == (1, 1)
        simulation.delete(pod("web"))
        assert simulation.outcomes() == []


# Nodes that are only imagined.


@in_event_loop
async def test_an_imagined_node_is_judged_and_leaves_no_trace() -> None:
    async with Simulation([node("a"), pod("web", cpu="3")]) as simulation:
        await simulation.settle()
        before = simulation.cluster.node_names()
        assert simulation.refusal(pod("web", cpu="3"), node("small")) == "Insufficient cpu"
        assert simulation.refusal(pod("web", cpu="3"), node("large", cpu="4")) == ""
        assert simulation.cluster.node_names() == before
        await simulation.settle()
        assert simulation.node_of(pod("web")) == ""


@in_event_loop
async def test_a_pod_that_is_refused_everywhere_for_a_field_is_refused_by_an_imagined_node() -> None:
    web = pod("web")
    spec = msgspec.structs.replace(web.spec, resource_claims=(PodResourceClaim("gpu"),))
    claiming = msgspec.structs.replace(web, spec=spec)
    async with Simulation([node("a"), claiming]) as simulation:
        await simulation.settle()
        [found] = simulation.outcomes()
        refusal = simulation.refusal(claiming, node("imagined"))
    assert refusal.startswith("pod has spec.resourceClaims, which")
    assert refusal in found.message


@in_event_loop
async def test_an_imagined_node_needs_a_name_of_its_own() -> None:
    async with Simulation([node("a")]) as simulation:
        with pytest.raises(ValueError, match="the cluster has a node a"):
            simulation.refusal(pod("web"), node("a"))


@in_event_loop
async def test_a_plugin_that_fails_about_an_imagined_node_is_an_error() -> None:
    async with Simulation(plugins=[Broken]) as simulation:
        with pytest.raises(CycleError, match="no such thing"):
            simulation.refusal(pod("web"), node("a"))
        assert simulation.cluster.node_count == 0


@in_event_loop
async def test_a_victim_that_is_deleted_by_another_at_that_moment_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    victim = pod("low", cpu="2", node_name="a")
    async with Simulation([node("a"), victim]) as simulation:
        simulation.create(make_pod("high", {"cpu": "2"}, priority=10))
        async with asyncio.timeout(10):
            while not simulation._queue.nominator.node_of:
                await asyncio.sleep(0)
        simulation.delete(victim)
        await simulation.settle()
        assert [(outcome.name, outcome.node) for outcome in simulation.outcomes()] == [("high", "a")]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


class LowWaits(Permit):
    """Makes pods without a priority wait."""

    name = "LowWaits"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (None, 0.0) if pod.spec.priority else (Status(Code.WAIT), 60.0)


@pytest.mark.parametrize("minor", [31, 35, 36, 37])
@in_event_loop
async def test_a_pod_that_gave_its_place_up_in_permit_is_not_reported_as_deleted(minor: int) -> None:
    simulation = Simulation([node("a", cpu="1"), pod("low")], plugins=[LowWaits], release=f"1.{minor}")
    async with simulation:
        async with asyncio.timeout(10):
            while not len(simulation._handle.waiting_pods):
                await asyncio.sleep(0)
        simulation.create(make_pod("high", {"cpu": "1"}, priority=10))
        await simulation.settle()
    assert [event.regarding.name for event in simulation.events if event.reason == "Preempted"] == ["low"]
    low, high = simulation.outcomes()
    assert (low.node, low.reason) == ("", "Unschedulable")
    assert (high.node, high.victims) == ("a", ())


class AfterTheFirst(PreFilter, Reserve):
    """Rejects pods until the first one has a node, and then has them tried again, which no event does."""

    name = "AfterTheFirst"
    retry_on = ()

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.waiting: list[Pod] = []
        self.has_begun = False

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        if self.has_begun or pod.metadata.name == "first":
            return None
        self.waiting.append(pod)
        return unschedulable("the first pod has no node yet")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.has_begun = True
        self.handle.activate(self.waiting)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.has_begun = False


@in_event_loop
async def test_a_plugin_has_pods_tried_at_once_that_no_event_would_wake() -> None:
    others = [make_pod(name, {"cpu": "1"}, priority=10) for name in ("b", "c")]
    found = await settled(Simulation([node("a", cpu="9"), *others, pod("first")], plugins=[AfterTheFirst]))
    assert {outcome.name: outcome.node for outcome in found} == {"b": "a", "c": "a", "first": "a"}


# Pods that different plugins reject, and one event that helps all of them: only one fits then.
IN_WHICH_ORDER = """
import asyncio
from extender_service.simulation import Simulation
from tests.support.objects import make_node, make_pod

async def main():
    running = make_pod("running", "a", requests={"cpu": "2"}, ports=[80])
    node = make_node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "3"})
    big = [make_pod(f"big-{number}", requests={"cpu": "3"}) for number in range(3)]
    ported = [make_pod(f"ported-{number}", ports=[80], requests={"cpu": "2"}) for number in range(3)]
    async with Simulation([node, running, *big, *ported]) as simulation:
        await simulation.settle()
        simulation.delete(running)
        await simulation.settle()
        print([outcome.name for outcome in simulation.outcomes() if outcome.node])

asyncio.run(main())
"""


def test_equal_input_has_equal_outcomes_whatever_the_order_of_sets_is() -> None:
    def placed(hash_seed: int) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        return subprocess.run(
            [sys.executable, "-c", IN_WHICH_ORDER], env=environment, stdout=subprocess.PIPE, check=True, text=True
        ).stdout

    outcomes = {placed(hash_seed) for hash_seed in range(5)}
    assert len(outcomes) == 1
    assert "[]" not in str(outcomes)

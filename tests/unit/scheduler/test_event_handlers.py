"""What the watch shows reaches the cluster and the queue: which pods enter, leave and wake."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.sources.stores import StorageStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import DEFAULT_RULES, rules_of
from extender_service.framework.cluster_event import CSI_DRIVER, NODE, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Plugin, PreBind
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.resources.api_resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from extender_service.kube.types.core import (
    Affinity,
    GCEPersistentDisk,
    LabelSelector,
    ObjectMeta,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodStatus,
    ResourceList,
    Volume,
)
from extender_service.kube.types.storage import CSIDriver, CSINode, PersistentVolumeClaim, StorageClass
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.event_handlers import storage_kinds
from tests.support.binding_plugins import Doorman
from tests.support.clusters.scheduler_world import SchedulerWorld, on_node, turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod, watched
from tests.support.storage_objects import make_claim, make_class, make_volume, with_volumes
from tests.support.stub_plugins import Stub, make_handle, stub_cluster

FULL: ResourceList = {"cpu": "4"}


def changed(pod: Pod, version: str, **spec: object) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, **spec))


def labelled(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={"app": "web"}))


def waiting() -> tuple[SchedulerWorld, Pod]:
    """A pod that does not fit, and was tried an hour ago."""
    world, pod = SchedulerWorld(make_node("a")), make_pod("p", requests=FULL)
    world.create(make_pod("running", "a", requests=FULL), pod)
    world.attempt_all()
    world.clock.pass_seconds(60)
    assert world.where() == {"unschedulable": 1}
    return world, pod


@in_event_loop
async def test_a_pending_pod_enters_the_queue_once_however_often_it_is_shown() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod, pod)
    assert world.where() == {"active": 1}


@pytest.mark.parametrize(
    ("minor", "place", "where"),
    [(31, "a", {}), (34, "a", {}), (35, "", {"unschedulable": 1}), (37, "", {"unschedulable": 1})],
)
@in_event_loop
async def test_a_pod_that_waits_in_permit_gives_its_place_up_as_it_is_being_deleted_from_1_35_on(
    minor: int, place: str, where: dict[str, int]
) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("waits")
    world.engine.profiles.of(whole(pod)).permit = (Doorman(None, world.handle),)
    world.create(pod)
    assert world.attempt() == "waits"
    await turns()
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", deletion_timestamp="2026-01-01T00:00:00Z")
    world.create(msgspec.structs.replace(pod, metadata=metadata))
    await turns()
    assert (world.place_of(pod), world.where()) == (place, where)
    await world.scheduler.abandon()


@pytest.mark.parametrize(("minor", "place"), [(34, "a"), (35, ""), (37, "")])
@in_event_loop
async def test_a_pod_that_permit_has_allowed_gives_its_place_up_at_once_as_it_is_being_deleted_from_1_35_on(
    minor: int, place: str
) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("waits")
    profile = world.engine.profiles.of(whole(pod))
    profile.permit, profile.pre_bind = (Doorman(None, world.handle),), (Slow(None, world.handle),)
    world.create(pod)
    assert world.attempt() == "waits"
    await turns()
    [waiting] = profile.waiting_pods
    waiting.allow("Doorman")
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", deletion_timestamp="2026-01-01T00:00:00Z")
    world.create(msgspec.structs.replace(pod, metadata=metadata))
    assert world.place_of(pod) == place
    await world.scheduler.abandon()


class Slow(PreBind):
    """Prepares a pod for longer than a test takes."""

    name = "Slow"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(3600)
        return None


async def preparing(minor: int) -> tuple[SchedulerWorld, Pod]:
    """A pod that is in PreBind on the only node, and another one that waits for its room."""
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("p", requests=FULL)
    world.engine.profiles.of(whole(pod)).pre_bind = (Slow(None, world.handle),)
    world.create(pod, make_pod("other", requests=FULL))
    world.attempt_all()
    await turns()
    world.clock.pass_seconds(60)
    assert (world.place_of(pod), world.where()) == ("a", {"unschedulable": 1})
    return world, pod


@pytest.mark.parametrize(("minor", "place", "where"), [(34, "a", "unschedulable"), (35, "", "active")])
@in_event_loop
async def test_a_pod_in_pre_bind_gives_its_place_up_as_it_is_being_deleted_from_1_35_on(
    minor: int, place: str, where: str
) -> None:
    world, pod = await preparing(minor)
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", deletion_timestamp="2026-01-01T00:00:00Z")
    world.create(msgspec.structs.replace(pod, metadata=metadata))
    assert world.place_of(pod) == place
    assert world.where() == {where: 1}
    await world.scheduler.abandon()


@pytest.mark.parametrize(("minor", "where"), [(34, "unschedulable"), (35, "active")])
@in_event_loop
async def test_a_pod_that_goes_in_pre_bind_wakes_those_that_wait_for_its_room_from_1_35_on(
    minor: int, where: str
) -> None:
    world, pod = await preparing(minor)
    world.delete(pod)
    assert world.place_of(pod) == ""
    assert world.where() == {where: 1}
    await world.scheduler.abandon()


@pytest.mark.parametrize(("minor", "where"), [(34, "active"), (35, "unschedulable")])
@in_event_loop
async def test_a_nominated_pod_that_is_bound_wakes_others_until_1_34(minor: int, where: str) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    important = make_pod("important", requests=FULL)
    nominated = msgspec.structs.replace(important, status=PodStatus(nominated_node_name="a"))
    world.create(nominated)
    assert world.attempt() == "important"
    world.create(make_pod("p", requests=FULL))
    assert world.attempt() == "p"
    world.clock.pass_seconds(60)
    assert world.where() == {"unschedulable": 1}
    world.pod_watch.apply(watched(on_node(nominated, "a")))
    assert world.where() == {where: 1}
    await world.scheduler.abandon()


@in_event_loop
async def test_a_pod_that_goes_before_the_watch_shows_that_its_nomination_is_withdrawn_wakes_others() -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(37))
    pod = changed(make_pod("p", requests=FULL, nominated="a"), "1", priority=100)
    world.create(pod, make_pod("other", requests=FULL))
    world.pending.nominations.decide(pod, "")
    world.queue.delete(pod)
    world.create(make_pod("running", "a", requests=FULL))
    world.attempt_all()
    world.clock.pass_seconds(60)
    assert world.where() == {"unschedulable": 1}
    world.delete(pod)
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@pytest.mark.parametrize("is_made_again", [False, True])
@in_event_loop
async def test_a_pod_that_goes_after_its_nomination_was_refused_leaves_its_room_to_others(is_made_again: bool) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(37))
    pod = changed(make_pod("p", requests=FULL), "1", priority=100)
    world.api.errors["patch", "p"] = [ApiError(ApiStatus(403, "Forbidden", "a webhook says no"))]
    world.create(make_pod("victim", "a", requests=FULL), pod)
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-p": "a"}
    world.create(make_pod("other", requests=FULL))
    assert world.attempt() == "other"
    world.clock.pass_seconds(60)
    if is_made_again:  # as a list shows it
        world.create(changed(make_pod("p", uid="another", requests=FULL), "2", priority=100))
    else:
        world.delete(pod)
    assert dict(world.queue.nominator.on_nodes()) == {}
    assert "other" in world.attempt_all()
    await world.scheduler.close()


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_a_nomination_outlives_the_echo_of_an_earlier_one(minor: int) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))

    def show(version: str, nominated: str) -> None:
        pod = changed(make_pod("p", requests=FULL, nominated=nominated), version, priority=100)
        world.create(pod)

    world.create(make_pod("victim", "a", requests=FULL))
    show("1", "gone")
    assert world.attempt() == "p"
    await world.scheduler.close()
    nominations = []
    for version, nominated in enumerate(("", "a", ""), 2):
        show(str(version), nominated)
        nominations.append(dict(world.queue.nominator.on_nodes()))
    assert nominations == [{"uid-of-p": "a"}, {"uid-of-p": "a"}, {}]


@in_event_loop
async def test_a_pod_that_another_scheduler_bound_leaves_the_queue() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.pod_watch.apply(watched(on_node(pod, "a")))
    assert world.where() == {}
    assert world.place_of(pod) == "a"


@in_event_loop
async def test_a_pod_that_is_deleted_leaves_the_queue() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.delete(pod)
    assert world.where() == {}
    assert len(world.pending) == 0


@in_event_loop
async def test_a_running_pod_that_goes_wakes_those_that_wait_for_its_room() -> None:
    world, _ = waiting()
    world.delete(make_pod("running", "a"))
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@in_event_loop
@pytest.mark.parametrize(
    "volume",
    [
        Volume(gce_persistent_disk=GCEPersistentDisk("d")),
        Volume(persistent_volume_claim=PersistentVolumeClaimSource("c")),
    ],
    ids=["disk", "claim"],
)
async def test_hints_see_which_volume_a_running_pod_gives_back(volume: Volume) -> None:
    world = SchedulerWorld(make_node("a"), uses_hints=True)
    world.cluster.apply_storage(make_claim("c", "v", modes=["ReadWriteOncePod"]))
    world.cluster.apply_storage(make_volume("v", modes=["ReadWriteOncePod"]))
    world.create(with_volumes("running", volume, node="a"), with_volumes("p", volume))
    world.attempt_all()
    world.clock.pass_seconds(60)
    assert world.where() == {"unschedulable": 1}
    world.delete(with_volumes("running", volume, node="a"))
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@in_event_loop
async def test_a_running_pod_that_ends_wakes_those_that_wait_for_its_room() -> None:
    world, _ = waiting()
    ended = msgspec.structs.replace(make_pod("running", "a", requests=FULL), status=PodStatus(phase="Succeeded"))
    world.pod_watch.apply(watched(ended))
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@in_event_loop
async def test_a_running_pod_whose_name_another_pod_has_after_a_list_wakes_those_that_wait_for_its_room() -> None:
    world, _ = waiting()
    world.create(make_pod("running", uid="another", requests={"cpu": "100"}))
    assert world.where() == {"active": 2}
    await world.scheduler.close()


@in_event_loop
async def test_a_pod_whose_name_a_pod_of_another_scheduler_has_after_a_list_leaves_the_queue() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.pod_watch.apply(watched(msgspec.structs.replace(pod, metadata=ObjectMeta("p", "default", uid="another"))))
    assert world.where() == {}
    assert len(world.pending) == 0


@in_event_loop
async def test_a_node_that_has_no_room_for_a_pod_does_not_wake_it() -> None:
    world, _ = waiting()
    world.node_watch.apply(make_node("tiny", {"cpu": "1", "pods": "10"}))
    assert world.where() == {"unschedulable": 1}
    await world.scheduler.close()


@in_event_loop
async def test_a_node_that_is_uncordoned_wakes_pods() -> None:
    world = SchedulerWorld(make_node("a", unschedulable=True))
    world.create(make_pod("p"))
    world.attempt_all()
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("a"))
    assert world.where() == {"active": 1}
    await world.scheduler.close()


@in_event_loop
async def test_a_pending_pod_that_changes_is_tried_as_it_is_now() -> None:
    world, pod = waiting()
    world.pod_watch.apply(whole(changed(make_pod("p", requests={"cpu": "100m"}), "2")))
    assert world.where() == {"active": 1}
    await world.scheduler.close()
    del pod


@in_event_loop
async def test_an_update_of_a_pod_that_is_being_bound_does_not_queue_it_again() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    world.pod_watch.apply(whole(changed(pod, "2", priority=7)))
    assert world.where() == {}
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_an_update_of_a_pod_that_was_bound_and_has_ended_does_not_queue_it_again() -> None:
    world, pod = waiting()
    world.queue.delete(pod)
    world.pending.note_ended("default/p")
    world.pod_watch.apply(whole(changed(pod, "2", priority=7)))
    assert world.where() == {}
    world.pod_watch.apply(whole(changed(make_pod("p", uid="another"), "3")))
    assert world.where() == {"active": 1}


def test_kinds_of_storage_that_a_plugin_registered_are_named_whether_or_not_it_reads_them() -> None:
    class Drivers(Plugin):
        name = "Drivers"
        retry_on = (ClusterEvent(CSI_DRIVER, ActionType.ADD), ClusterEvent(NODE, ActionType.ADD))

    drivers = Drivers(None, make_handle(stub_cluster()))
    assert storage_kinds([queueing_hints([drivers], rules_of(32))]) == {CSIDriver}
    assert CSINode in storage_kinds([queueing_hints([], DEFAULT_RULES, with_extenders=True)])


@in_event_loop
async def test_each_event_is_timed_under_kube_schedulers_name() -> None:
    world = SchedulerWorld()
    node = make_node("a")
    pod, assigned = make_pod("p"), make_pod("q", "a")
    world.node_watch.apply(node)
    world.create(pod, assigned)
    world.pod_watch.apply(whole(changed(pod, "2", priority=5)))
    world.pod_watch.apply(watched(assigned))
    world.node_watch.apply(make_node("a", unschedulable=True))  # no event
    world.node_watch.apply(node)
    world.delete(pod)
    world.delete(assigned)
    world.node_watch.remove(("", "a"))
    assert [label for label, _ in world.handled] == [
        "NodeAdd",
        "UnschedulablePodAdd",
        "AssignedPodAdd",
        "UnschedulablePodUpdate",
        "AssignedPodUpdate",
        "NodeSpecUnschedulableChange",
        "UnschedulablePodDelete",
        "AssignedPodDelete",
        "NodeDelete",
    ]


@pytest.mark.parametrize(
    ("minor", "labels"),
    [
        (31, ["UnschedulablePodUpdate", "UnschedulablePodUpdate", "AssignedPodUpdate", "AssignedPodUpdate"]),
        (
            34,
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdate",
                "AssignedPodUpdatePodLabel",
                "AssignedPodUpdate",
                "AssignedPodUpdate",
                "AssignedPodUpdate",
            ],
        ),
    ],
)
@in_event_loop
async def test_updates_are_timed_under_each_event_that_they_are_from_1_32_on(minor: int, labels: list[str]) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    pod, assigned = make_pod("p"), make_pod("q", "a")
    world.create(pod, assigned)
    world.handled.clear()
    for relabelled in (labelled(changed(pod, "2")), labelled(assigned)):
        world.create(relabelled, relabelled)  # the second time, nothing has changed
    assert [label for label, _ in world.handled] == labels


@pytest.mark.parametrize(
    ("minor", "label"), [(31, "UnschedulablePodDelete"), (36, "UnschedulablePodDelete"), (37, "UnscheduledPodDelete")]
)
@in_event_loop
async def test_that_a_pod_is_bound_is_timed_as_its_end_in_the_queue_too(minor: int, label: str) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("p")
    world.create(pod)
    world.attempt()
    world.handled.clear()
    world.pod_watch.apply(watched(on_node(pod, "a")))
    assert [each for each, _ in world.handled] == ["AssignedPodAdd", label]
    world.handled.clear()
    world.create(make_pod("of-another-scheduler", "a"))
    assert [each for each, _ in world.handled] == ["AssignedPodAdd"]
    await world.scheduler.close()


@pytest.mark.parametrize(
    ("minor", "storage_class", "claim"),
    [
        (31, "StorageClass", "Pvc"),
        (37, "storage.k8s.io/StorageClass", "PersistentVolumeClaim"),
    ],
)
@in_event_loop
async def test_changes_of_storage_are_timed_that_some_plugin_registered(
    minor: int, storage_class: str, claim: str
) -> None:
    world = SchedulerWorld(rules=rules_of(minor))
    classes = world.handlers.handler(STORAGE_CLASSES, StorageStore(world.cluster, StorageClass))
    claims = world.handlers.handler(PERSISTENT_VOLUME_CLAIMS, StorageStore(world.cluster, PersistentVolumeClaim))
    for mode in ("Immediate", "WaitForFirstConsumer"):
        classes.apply(make_class(mode, mode=mode))
    classes.remove(("", "Immediate"))
    claims.apply(make_claim("c"))
    claims.apply(make_claim("c", "v"))
    claims.remove(("default", "c"))
    assert [label for label, _ in world.handled] == [
        f"{storage_class}Add",
        f"{storage_class}Add",
        f"{claim}Add",
        f"{claim}Update",
    ]


@pytest.mark.parametrize(
    ("minor", "hints", "woken_by"),
    [
        (31, False, ["late is added"]),
        (31, True, ["late is added"]),
        (32, False, ["late is added", "late is deleted"]),
        (32, True, ["early is added", "late is added", "late is deleted"]),
    ],
)
@in_event_loop
async def test_which_changes_of_storage_classes_wake_pods(minor: int, hints: bool, woken_by: list[str]) -> None:
    world = SchedulerWorld(
        make_node("a"),
        plugins={"filter": [(Stub("AnyChange", rejects={"a": unschedulable("no")}), 0)]},
        rules=rules_of(minor, {"SchedulerQueueingHints": hints}),
    )
    classes = world.handlers.handler(STORAGE_CLASSES, StorageStore(world.cluster, StorageClass))
    changes: Mapping[str, Callable[[], None]] = {
        "early is added": lambda: classes.apply(make_class("early", mode="Immediate")),
        "late is added": lambda: classes.apply(make_class("late")),
        "late is deleted": lambda: classes.remove(("", "late")),
    }
    world.create(make_pod("p"))
    woken = []
    for name, change in changes.items():
        world.attempt()
        world.clock.pass_seconds(600)
        change()
        woken += [name] if "active" in world.where() else []
    assert woken == woken_by
    await world.scheduler.close()


NODES = [make_node("a", labels={"zone": "a"}), make_node("b", labels={"zone": "b"})]
echoes = st.fixed_dictionaries(
    {
        "node": st.sampled_from(["its", "another"]),
        "uid": st.sampled_from(["uid-of-p", "another"]),
        "labels": st.sampled_from([{}, {"app": "web"}]),
        "cpu": st.sampled_from(["1", "2"]),
        "phase": st.sampled_from(["Pending", "Running", "Succeeded"]),
        "deleted": st.booleans(),
    }
)


def near_web(name: str) -> Pod:
    """A pod that must be near one of app web."""
    term = PodAffinityTerm("zone", LabelSelector({"app": "web"}))
    return changed(make_pod(name), "", affinity=Affinity(pod_affinity=PodAffinity((term,))))


def echo_of(pod: Pod, seen: Mapping[str, Any]) -> Pod:
    """A pod as the watch shows it once it is bound, with what others changed at the same time."""
    replace = msgspec.structs.replace
    going = "2026-01-01T00:00:00Z" if seen["deleted"] else ""
    metadata = replace(pod.metadata, uid=seen["uid"], labels=seen["labels"], deletion_timestamp=going)
    spec = replace(
        pod.spec, node_name=seen["node"], containers=make_pod("p", requests={"cpu": seen["cpu"]}).spec.containers
    )
    return replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase=seen["phase"]))


async def after_echo(
    seen: Mapping[str, Any], *, uses_hints: bool, waits: bool, is_in_flight: bool
) -> tuple[object, ...]:
    """What the queue knows after a pod was placed, and the watch showed it bound."""
    world = SchedulerWorld(*NODES, uses_hints=uses_hints)
    pod, other = make_pod("p", requests={"cpu": "1"}), near_web("other")
    if waits:
        world.create(other)
        world.attempt_all()
    world.create(pod)
    assert world.attempt() == "p"
    seen = {
        **seen,
        "node": {"its": world.place_of(pod), "another": "b" if world.place_of(pod) == "a" else "a"}[seen["node"]],
    }
    if is_in_flight and not waits:
        world.create(other)
        info = world.queue.pop()
    echo = echo_of(pod, seen)
    world.pod_watch.apply(watched(echo))
    counts = world.queue.in_flight_counts()
    if is_in_flight and not waits:
        assert info is not None
        info.unschedulable_plugins = frozenset({"InterPodAffinity"})
        world.queue.add_unschedulable_if_not_present(info, world.queue.scheduling_cycle)
    listed = Cluster(world.cluster.rules)
    for node in NODES:
        listed.apply_node(node)
    for shown in (echo, *([other] if waits or is_in_flight else [])):
        listed.apply_pod(shown)
    assert compare(world.cluster, listed).lines() == []
    await world.scheduler.abandon()
    return world.where(), counts, world.handled


@given(echoes, st.booleans(), st.booleans(), st.booleans())
def test_whatever_comes_with_a_binding_is_taken_in_and_reported(
    seen: Mapping[str, Any], uses_hints: bool, waits: bool, is_in_flight: bool
) -> None:
    def outcome() -> tuple[object, ...]:
        return asyncio.run(after_echo(seen, uses_hints=uses_hints, waits=waits, is_in_flight=is_in_flight))

    with patch.object(SchedulingQueue, "looks_at_events", new=True):
        with_details = outcome()
    assert outcome() == with_details

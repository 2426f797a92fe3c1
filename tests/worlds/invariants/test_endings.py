"""The rules of the end hold in a world that has settled, and each fires once something breaks it."""

from asyncio import Task
from collections.abc import Callable, Sequence
from typing import cast
from unittest.mock import Mock

import msgspec
import pytest

from extender_service.kube.resources.api_resources import PODS as POD_RESOURCE
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import PersistentVolume
from extender_service.scheduling.under_way import UnderWay
from tests.support.objects import make_pod
from tests.support.storage_objects import make_volume
from tests.worlds.api_server.kinds import LEASES, NODES, PODS
from tests.worlds.invariants.endings import (
    AllReady,
    AllRun,
    CachesEqual,
    FittingPodsBound,
    LeaderAgreed,
    NothingLeftOver,
    QueuesComplete,
)
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import InTheEnd, Observed
from tests.worlds.scenarios import Scenario, ScheduledCluster

ALL = (AllRun, FittingPodsBound, QueuesComplete, CachesEqual, NothingLeftOver, LeaderAgreed, AllReady)


@pytest.fixture
def settled() -> ScheduledCluster:
    """A world with two replicas that has bound its pods."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, replicas=2, pods=5))
    cluster.run()
    return cluster


def problems(cluster: ScheduledCluster, rule: type[InTheEnd]) -> list[str]:
    return list(rule().problems(observed_of(cluster)))


def observed_of(cluster: ScheduledCluster) -> Observed:
    return Observed(cluster.world, cluster.model, cluster.replicas, cluster.service)


def insides_of(cluster: ScheduledCluster) -> SchedulerInsides:
    insides = scheduler_insides(cluster.replicas[0])
    assert insides is not None
    return insides


@pytest.mark.parametrize("rule", ALL)
def test_holds_in_a_world_that_has_settled(settled: ScheduledCluster, rule: type[InTheEnd]) -> None:
    assert problems(settled, rule) == []


def test_holds_with_the_service_too() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=5, mode="replace"))
    cluster.run()
    assert service_insides(cluster.service or cluster.replicas[0]) is not None
    for rule in ALL:
        assert problems(cluster, rule) == []


def test_a_standby_that_delays_its_cache_needs_neither_that_nor_a_queue() -> None:
    wanted = frozenset({"delayed-cache"})
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, replicas=2, pods=5, wanted=wanted))
    cluster.run()
    for rule in ALL:
        assert problems(cluster, rule) == []
    nominate_unseen(cluster)
    assert problems(cluster, QueuesComplete) == ["the queue of replica-0 lacks pod default/late"]  # which leads
    assert problems(cluster, NothingLeftOver) == []


def drop_a_node(cluster: ScheduledCluster) -> None:
    insides_of(cluster).cluster.remove_node("node-0")


def lose_a_pod(cluster: ScheduledCluster) -> None:
    insides_of(cluster).cluster.remove_pod(("default", "pod-1"))


def leave_a_nomination(cluster: ScheduledCluster) -> None:
    pod = POD_RESOURCE.decoder.decode(next(cluster.model.etcd.all(PODS)).body)
    insides_of(cluster).queue.nominator._node_of[pod_uid(pod)] = "node-0"


def leave_a_nomination_of_a_gone_pod(cluster: ScheduledCluster) -> None:
    insides_of(cluster).queue.nominator._node_of["gone"] = ""


def leave_a_pod_held(cluster: ScheduledCluster) -> None:
    insides_of(cluster).queue._held.add("uid")


def leave_a_placement(cluster: ScheduledCluster) -> None:
    pod = POD_RESOURCE.decoder.decode(next(cluster.model.etcd.all(PODS)).body)
    cluster_inside = insides_of(cluster).cluster
    renamed = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="other", name="other"))
    cluster_inside.placements.place(renamed, "other", "node-1")


def stop_renewing(cluster: ScheduledCluster) -> None:
    elector = insides_of(cluster).elector
    assert elector is not None
    assert elector._renewed_at is not None
    elector._renewed_at -= 10.0


def give_away_the_lease(cluster: ScheduledCluster) -> None:
    lease = cluster.model.etcd.get(LEASES, "kube-system/kube-scheduler")
    assert lease is not None
    value = lease.copy()
    value["spec"]["holderIdentity"] = "other_1"
    cluster.model.etcd.put(LEASES, lease.key, value)


def add_a_pod_unseen(cluster: ScheduledCluster) -> None:
    """No replica is shown it: the world has stopped."""
    item = next(cluster.model.etcd.all(PODS)).copy()
    item["metadata"].update(name="late", uid="late")
    del item["spec"]["nodeName"]
    cluster.model.etcd.put(PODS, "default/late", item)


def nominate_unseen(cluster: ScheduledCluster) -> None:
    add_a_pod_unseen(cluster)
    item = cluster.model.etcd.get(PODS, "default/late")
    assert item is not None
    cluster.model.etcd.put(PODS, item.key, {**item.copy(), "status": {"nominatedNodeName": "node-0"}})


def miscount_the_queue(cluster: ScheduledCluster) -> None:
    insides_of(cluster).queue._unschedulable.unschedulable_count += 1


def kill(cluster: ScheduledCluster) -> None:
    cluster.replicas[0].on_end = lambda: None
    cluster.replicas[0].kill()


def drain(cluster: ScheduledCluster) -> None:
    insides_of(cluster).health.drain()


@pytest.mark.parametrize(
    ("rule", "break_it", "text"),
    [
        (AllRun, kill, "replica-0 does not run: it was killed"),
        (FittingPodsBound, add_a_pod_unseen, "pod default/late waits, though it fits on node-0"),
        (QueuesComplete, add_a_pod_unseen, "the queue of replica-0 lacks pod default/late"),
        (QueuesComplete, miscount_the_queue, "the queue of replica-0 has 0 pods in unschedulable, and counts 1"),
        (CachesEqual, drop_a_node, "the cache of replica-0 differs: missed nodes (1): node-0"),
        (CachesEqual, lose_a_pod, "the cache of replica-0 differs: missed pods (1): default/pod-1"),
        (NothingLeftOver, leave_a_placement, "replica-0 still has pod other reserved on node-1"),
        (NothingLeftOver, leave_a_nomination, "replica-0 still has the nomination of"),
        (
            NothingLeftOver,
            leave_a_nomination_of_a_gone_pod,
            "replica-0 still has the nomination of gone for '', which the API server has for 'no pod'",
        ),
        (NothingLeftOver, nominate_unseen, "replica-1 still has no nomination of late for node-0, which"),
        (NothingLeftOver, leave_a_pod_held, "replica-0 still has pod uid held"),
        (LeaderAgreed, give_away_the_lease, "other_1 holds the lease, and these lead: "),
        (LeaderAgreed, stop_renewing, "replica-0 leads, and has not renewed the lease for long"),
        (AllReady, drain, "replica-0 is not ready: shutdown failed: process is shutting down"),
    ],
)
def test_fires_once_it_is_broken(
    settled: ScheduledCluster, rule: type[InTheEnd], break_it: Callable[[ScheduledCluster], None], text: str
) -> None:
    break_it(settled)
    assert any(problem.startswith(text) for problem in problems(settled, rule)), problems(settled, rule)


def test_a_pod_that_fits_from_a_later_look_on_may_back_off(settled: ScheduledCluster) -> None:
    rule, observed = FittingPodsBound(), observed_of(settled)
    add_a_pod_unseen(settled)
    assert len([*rule.problems(observed)]) == 1
    settled.model.etcd.delete(PODS, "default/late")
    add_a_pod_unseen(settled)
    late = settled.model.etcd.get(PODS, "default/late")
    assert late is not None
    late.value["metadata"]["uid"] = "another"
    assert [*rule.problems(observed)] == []


def test_what_is_left_at_one_look_and_not_at_the_next_has_ended_in_time(settled: ScheduledCluster) -> None:
    rule, observed, held = NothingLeftOver(), observed_of(settled), insides_of(settled).queue._held
    held.update(("one", "two"))
    assert len([*rule.problems(observed)]) == 2
    held.remove("one")
    held.add("three")
    assert [*rule.problems(observed)] == ["replica-0 still has pod two held"]


def test_a_pod_that_is_written_again_and_again_has_no_write_that_is_left(settled: ScheduledCluster) -> None:
    rule, observed, writes = NothingLeftOver(), observed_of(settled), insides_of(settled).scheduler._writes._last
    first, second, stuck = (cast(Task[None], Mock()) for _ in range(3))
    writes.update(again=first, stuck=stuck)
    assert len([*rule.problems(observed)]) == 2
    writes["again"] = second
    assert [*rule.problems(observed)] == ["replica-0 still has pod stuck being written"]


@pytest.mark.parametrize("is_excused", [True, False])
def test_a_pod_may_wait_that_kube_scheduler_would_leave_waiting_too(
    settled: ScheduledCluster, is_excused: bool
) -> None:
    add_a_pod_unseen(settled)
    asked: list[tuple[str, int]] = []

    def excuses(uid: str, node_names: Sequence[str]) -> bool:
        asked.append((uid, len(node_names)))
        return is_excused

    assert bool([*FittingPodsBound(excuses).problems(observed_of(settled))]) != is_excused
    assert asked == [("late", 5)]


def test_a_pod_that_fits_nowhere_may_wait(settled: ScheduledCluster) -> None:
    for item in [*settled.model.etcd.all(NODES)]:
        settled.model.etcd.delete(NODES, item.key)
    add_a_pod_unseen(settled)
    assert problems(settled, FittingPodsBound) == []


@pytest.mark.parametrize("name", ["waits", "is-gone"])
def test_the_service_may_expect_a_pod_that_waits(name: str) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=5, mode="replace"))
    cluster.run()
    service = service_insides(cluster.service or cluster.replicas[0])
    assert service is not None
    item = next(cluster.model.etcd.all(PODS)).copy()
    item["metadata"].update(name="waits", uid="waits")
    del item["spec"]["nodeName"]
    cluster.model.etcd.put(PODS, "default/waits", item)
    service.cluster.placements.place(make_pod(name), name, "node-1")
    left = [] if name == "waits" else ["service still has pod is-gone reserved on node-1"]
    assert problems(cluster, NothingLeftOver) == left


@pytest.mark.parametrize("free", [0, 1])
def test_a_pod_may_wait_that_fits_only_where_the_service_expects_others(free: int) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=5, mode="replace"))
    cluster.run()
    service = service_insides(cluster.service or cluster.replicas[0])
    assert service is not None
    add_a_pod_unseen(cluster)
    names = [item.key for item in cluster.model.etcd.all(NODES)]
    for name in names[free:]:
        service.cluster.placements.place(make_pod(f"on-{name}"), f"on-{name}", name)
    # The room that is kept for it is its own.
    service.cluster.placements.place(make_pod("late"), "late", names[0])
    found = [f"pod default/late waits, though it fits on {name}" for name in names[:free]]
    assert problems(cluster, FittingPodsBound) == found


@pytest.mark.parametrize("is_excused", [True, False])
def test_a_binding_may_wait_for_a_write_that_etcd_has_lost(
    settled: ScheduledCluster, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, excused = settled.replicas[0], {"late"} if is_excused else set[str]()
    add_a_pod_unseen(settled)
    insides = insides_of(settled)
    insides.cluster.placements.place(make_pod("late"), "late", "node-1").assume()
    task = cast(Task[None], leader._task)
    insides.engine.binder._under_way["late"] = UnderWay("node-1", task)
    insides.scheduler._bindings.under_way.add(task)
    insides.queue._in_flight.start("late")
    monkeypatch.setattr(
        "tests.worlds.invariants.endings.wait_for_lost_writes",
        lambda _, process: excused if process is leader else set(),
    )
    left = [*problems(settled, NothingLeftOver), *problems(settled, FittingPodsBound)]
    missed = problems(settled, QueuesComplete)
    assert len(left) == (0 if is_excused else 5), left
    assert len(missed) == (1 if is_excused else 2), missed


@pytest.mark.parametrize("is_excused", [True, False])
def test_a_volume_that_is_assumed_though_no_pod_is_being_bound_is_left_over(
    settled: ScheduledCluster, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = make_volume("v")
    storage = insides_of(settled).cluster.storage
    storage.apply(volume)
    storage.assume(volume, make_volume("v", class_name="other"))
    excused = {(PersistentVolume, ("", "v"))} if is_excused else set()
    monkeypatch.setattr("tests.worlds.invariants.endings.assumed_for_lost_writes", lambda *_: excused)
    expected = [] if is_excused else ["replica-0 still has 1 volumes or claims assumed"]
    assert problems(settled, NothingLeftOver) == expected

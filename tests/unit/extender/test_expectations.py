import asyncio

import pytest

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.debugging.table_sizes import TableSize
from extender_service.cluster.state.changes import Change
from extender_service.cluster.state.cluster import Cluster
from extender_service.extender import expectations
from extender_service.extender.expectations import SPARE_DEADLINES, UNKNOWN_SECONDS, Expectations
from extender_service.extender.named_victims import MOST_VICTIMS
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import MetaPod, MetaVictims
from tests.support.clock import Clock
from tests.support.event_loop import in_event_loop
from tests.support.objects import Undo, make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = WEB.metadata.uid


class World:
    """Expected pods on nodes a and b, beside a watch that shows some pods."""

    def __init__(self, expected_seconds: float = 600) -> None:
        self.clock = Clock()
        self.cluster = Cluster()
        self.expectations = Expectations(self.cluster, clock=self.clock, expected_seconds=expected_seconds)
        self.dropped: list[str] = []
        for name in ("a", "b"):
            self.cluster.apply_node(make_node(name))

    def expect(self, pod: Pod, node_name: str) -> None:
        uid = pod.metadata.uid
        undo = Undo(lambda: self.dropped.append(uid))
        self.expectations.expect(self.cluster.placements.place(pod, uid, node_name, undo))

    def deadlines(self) -> int:
        return self.sizes()["placement_deadlines"].entries

    def sizes(self) -> dict[str, TableSize]:
        return {size.name: size for size in self.expectations.table_sizes()}

    def requested(self, node_name: str) -> int:
        return int(self.cluster.nodes.requested[CPU_MILLI, self.cluster.nodes.row_of[node_name]])

    def expired_after(self, seconds: float) -> list[str]:
        self.dropped.clear()
        self.clock.pass_seconds(seconds)
        self.expectations.expire()
        return list(self.dropped)


def test_an_expected_pod_that_the_watch_does_not_know_is_dropped_after_five_seconds() -> None:
    world = World()
    world.expect(WEB, "a")
    assert world.expired_after(UNKNOWN_SECONDS - 0.1) == []
    assert world.expired_after(0.1) == [UID]
    assert world.requested("a") == 0
    assert world.expired_after(1000) == []


def test_an_expected_pod_that_the_watch_knows_is_dropped_when_time_runs_out() -> None:
    world = World(expected_seconds=600)
    world.expect(WEB, "a")
    world.cluster.apply_pod(WEB)
    assert world.expired_after(599.9) == []
    assert world.expired_after(0.1) == [UID]


def test_time_is_counted_from_the_choice_however_seldom_somebody_looks() -> None:
    world = World(expected_seconds=600)
    world.expect(WEB, "a")
    world.cluster.apply_pod(WEB)
    assert world.expired_after(700) == [UID]


def test_where_time_is_short_it_runs_out_before_five_seconds() -> None:
    world = World(expected_seconds=2)
    world.expect(WEB, "a")
    world.cluster.apply_pod(WEB)
    assert world.expired_after(2) == [UID]


def test_choosing_again_starts_time_again() -> None:
    world = World()
    world.expect(WEB, "a")
    world.clock.pass_seconds(4)
    world.expect(WEB, "b")
    assert world.expired_after(4) == []
    assert world.requested("b") == 1000
    assert world.expired_after(1) == [UID]


def test_expectations_expire_one_by_one() -> None:
    world = World()
    world.expect(WEB, "a")
    world.clock.pass_seconds(1)
    world.expect(make_pod("db"), "a")
    assert world.expired_after(4) == [UID]
    assert world.expired_after(1) == ["uid-of-db"]


@pytest.mark.parametrize("ended", ["fulfil_unreported", "hand_over", "drop_unreported"])
def test_an_expectation_that_ended_does_not_expire(ended: str) -> None:
    world = World()
    world.expect(WEB, "a")
    getattr(world.cluster.placements, ended)(UID)
    assert world.expired_after(10**6) == []


def test_expectations_expire_past_one_that_has_ended() -> None:
    world = World()
    world.expect(make_pod("db"), "b")
    world.expect(WEB, "a")
    world.cluster.drop_placement("uid-of-db")
    assert world.expired_after(10**6) == [UID]


def test_what_has_ended_is_not_remembered_until_its_time_is_up() -> None:
    world = World()
    pods = [make_pod(f"web-{number}") for number in range(1000)]
    for pod in pods:
        world.cluster.apply_pod(pod)
        world.expect(pod, "a")
    # The watch knows them all: they may take ten minutes.
    assert world.expired_after(UNKNOWN_SECONDS) == []
    assert world.deadlines() == 1000
    for pod in pods[:-10]:
        world.cluster.fulfil_placement(pod.metadata.uid)
    assert world.expired_after(1) == []
    assert world.deadlines() <= 2 * 10 + SPARE_DEADLINES
    assert world.expired_after(600) == [pod.metadata.uid for pod in pods[-10:]]
    assert world.deadlines() == 0


def test_an_assumed_pod_never_expires() -> None:
    world = World()
    world.expect(WEB, "a")
    placement = world.cluster.placements.get(UID)
    assert placement is not None
    placement.assume()
    assert world.expired_after(10**6) == []
    assert world.requested("a") == 1000


def test_waiting_decisions_are_woken_when_an_expectation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    seen: list[Change] = []
    world.expect(WEB, "a")
    monkeypatch.setattr(world.cluster.changes, "notify", lambda change, _: seen.append(change))
    assert world.expired_after(4.9) == []
    assert seen == []
    assert world.expired_after(0.1) == [UID]
    assert seen == [Change.POD_REMOVED]


def test_all_expectations_are_dropped_at_once_and_pods_that_are_being_bound_stay() -> None:
    world = World()
    world.expect(WEB, "a")
    world.expect(make_pod("cache"), "b")
    world.cluster.placements.place(make_pod("db"), "uid-of-db", "b").assume()
    world.expectations.drop_all()
    assert [placement.uid for placement in world.cluster.placements] == ["uid-of-db"]


def test_the_extender_reports_how_many_deadlines_and_victims_it_keeps() -> None:
    world = World()
    world.expect(WEB, "a")
    world.expectations.note_victims("uid-of-urgent", named(a=[UID]))
    assert list(world.sizes().values()) == [
        ("placement_deadlines", 1, 2 + SPARE_DEADLINES),
        ("named_victims", 1, MOST_VICTIMS),
    ]


def named(**uids: list[str]) -> dict[str, MetaVictims]:
    """Victims by node."""
    return {node_name: MetaVictims([MetaPod(uid) for uid in on_node]) for node_name, on_node in uids.items()}


def test_victims_are_dropped_once_the_pod_that_they_make_room_for_is_nominated_on_their_node() -> None:
    world = World()
    for name, node_name in (("web", "a"), ("db", "a"), ("cache", "b")):
        world.expect(make_pod(name), node_name)
    world.expectations.note_victims("uid-of-urgent", named(a=[UID, "uid-of-db", "unknown"], b=["uid-of-cache"]))
    world.expectations.drop_victims("uid-of-urgent", "c")
    world.expectations.drop_victims("uid-of-other", "a")
    assert world.dropped == []
    world.expectations.drop_victims("uid-of-urgent", "a")
    assert world.dropped == [UID, "uid-of-db"]
    # kube-scheduler preempts on one node alone.
    world.expectations.drop_victims("uid-of-urgent", "b")
    assert [placement.uid for placement in world.cluster.placements] == ["uid-of-cache"]


def test_a_victim_that_is_being_bound_goes_on_to_count() -> None:
    world = World()
    world.expect(WEB, "a")
    world.expectations.note_victims("uid-of-urgent", named(a=[UID]))
    placement = world.cluster.placements.get(UID)
    assert placement is not None
    placement.assume()
    world.expectations.drop_victims("uid-of-urgent", "a")
    assert world.cluster.placements.get(UID) is placement
    world.expectations.note_victims("uid-of-urgent", named(a=[UID]))
    assert world.sizes()["named_victims"].entries == 0


def test_a_victim_that_was_asked_about_again_goes_on_to_count() -> None:
    """It fits beside the pod that is nominated there."""
    world = World()
    world.expect(WEB, "a")
    world.expectations.note_victims("uid-of-urgent", named(a=[UID]))
    world.expect(WEB, "a")
    world.dropped.clear()
    world.expectations.drop_victims("uid-of-urgent", "a")
    assert world.dropped == []


def test_only_the_last_preemption_of_a_pod_counts() -> None:
    world = World()
    world.expect(WEB, "a")
    world.expect(make_pod("db"), "b")
    world.expectations.note_victims("uid-of-urgent", named(a=[UID]))
    world.expectations.note_victims("uid-of-urgent", named(b=["uid-of-db"]))
    world.expectations.drop_victims("uid-of-urgent", "a")
    assert world.dropped == []


@in_event_loop
async def test_an_expectation_whose_time_is_up_ends_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "EXPIRY_SECONDS", 0.001)
    world = World()
    world.expect(WEB, "a")
    expiring = asyncio.create_task(world.expectations.keep_expiring())
    await asyncio.sleep(0.01)
    assert len(world.cluster.placements) == 1
    world.clock.now += 3600
    async with asyncio.timeout(20):
        while len(world.cluster.placements):
            await asyncio.sleep(0.001)
    expiring.cancel()

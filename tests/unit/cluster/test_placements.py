import pytest

from extender_service.cluster.dimensions import CPU_MILLI
from extender_service.cluster.occupancy import Occupancy
from extender_service.cluster.placements import SPARE_DEADLINES, UNKNOWN_SECONDS, Placements
from extender_service.kube.objects import Pod
from tests.unit.cluster.clock import Clock
from tests.unit.cluster.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = WEB.metadata.uid


class World:
    """Placements on nodes a and b, beside a watch that knows some pods."""

    def __init__(self, expected_seconds: float = 600) -> None:
        self.known: set[str] = set()
        self.clock = Clock()
        self.occupancy = Occupancy()
        self.placements = Placements(self.occupancy, self.known.__contains__, self.clock, expected_seconds)
        self.dropped: list[str] = []
        for name in ("a", "b"):
            self.occupancy.nodes.apply(make_node(name))

    def expect(self, pod: Pod, node_name: str) -> None:
        uid = pod.metadata.uid
        self.placements.expect(pod, uid, node_name, lambda: self.dropped.append(uid))

    def requested(self, node_name: str) -> int:
        return int(self.occupancy.nodes.requested[CPU_MILLI, self.occupancy.nodes.row_of[node_name]])

    def expired_after(self, seconds: float) -> list[str]:
        self.clock.pass_seconds(seconds)
        return [placement.uid for placement in self.placements.expire()]


def test_an_expected_pod_counts_on_the_node_chosen_for_it() -> None:
    world = World()
    world.expect(WEB, "a")
    placement = world.placements.get(UID)
    assert placement is not None
    assert (placement.node_name, placement.assumed, len(world.placements)) == ("a", False, 1)
    assert (world.requested("a"), world.requested("b")) == (1000, 0)
    assert [known.uid for known in world.placements] == [UID]


def test_choosing_again_moves_the_pod() -> None:
    world = World()
    world.expect(WEB, "a")
    world.expect(WEB, "b")
    assert (world.requested("a"), world.requested("b")) == (0, 1000)
    assert (len(world.placements), world.dropped) == (1, [UID])


def test_dropping_leaves_no_trace_and_undoes_what_was_reserved() -> None:
    world = World()
    world.expect(WEB, "a")
    assert world.placements.drop(UID) is not None
    assert world.placements.drop(UID) is None
    assert (world.requested("a"), len(world.placements), len(world.occupancy.pods)) == (0, 0, 0)
    assert world.dropped == [UID]


def test_fulfilling_undoes_nothing() -> None:
    world = World()
    world.expect(WEB, "a")
    assert world.placements.fulfil(UID) is not None
    assert (world.requested("a"), len(world.placements), world.dropped) == (0, 0, [])


def test_a_slot_that_is_handed_over_goes_on_to_count() -> None:
    world = World()
    world.expect(WEB, "a")
    slot = world.placements.hand_over(UID)
    assert world.occupancy.pods[slot].uid == UID
    assert (world.requested("a"), len(world.placements), world.placements.get(UID), world.dropped) == (
        1000,
        0,
        None,
        [],
    )


def test_an_expected_pod_that_the_watch_does_not_know_is_dropped_after_five_seconds() -> None:
    world = World()
    world.expect(WEB, "a")
    assert world.expired_after(UNKNOWN_SECONDS - 0.1) == []
    assert world.expired_after(0.1) == [UID]
    assert (world.requested("a"), world.dropped) == (0, [UID])
    assert world.expired_after(1000) == []


def test_an_expected_pod_that_the_watch_knows_is_dropped_when_time_runs_out() -> None:
    world = World(expected_seconds=600)
    world.expect(WEB, "a")
    world.known.add(UID)
    assert world.expired_after(599.9) == []
    assert world.expired_after(0.1) == [UID]
    assert world.dropped == [UID]


def test_time_is_counted_from_the_choice_however_seldom_somebody_looks() -> None:
    world = World(expected_seconds=600)
    world.expect(WEB, "a")
    world.known.add(UID)
    assert world.expired_after(700) == [UID]


def test_where_time_is_short_it_runs_out_before_five_seconds() -> None:
    world = World(expected_seconds=2)
    world.expect(WEB, "a")
    world.known.add(UID)
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


def test_an_assumed_pod_never_expires() -> None:
    world = World()
    world.placements.assume(WEB, UID, "a")
    assert world.expired_after(10**6) == []
    assert world.requested("a") == 1000


def test_binding_an_expected_pod_where_it_is_expected_keeps_what_was_reserved() -> None:
    world = World()
    world.expect(WEB, "a")
    assert world.placements.assume(WEB, UID, "a").assumed
    assert (world.requested("a"), world.dropped) == (1000, [])
    assert world.expired_after(10**6) == []
    world.placements.drop(UID)
    assert world.dropped == [UID]


def test_binding_an_expected_pod_elsewhere_moves_it() -> None:
    world = World()
    world.expect(WEB, "a")
    world.placements.assume(WEB, UID, "b")
    assert (world.requested("a"), world.requested("b"), world.dropped) == (0, 1000, [UID])
    assert world.expired_after(10**6) == []


@pytest.mark.parametrize("ended", ["fulfil", "hand_over", "drop"])
def test_an_expectation_that_ended_does_not_expire(ended: str) -> None:
    world = World()
    world.expect(WEB, "a")
    getattr(world.placements, ended)(UID)
    world.dropped.clear()
    assert world.expired_after(10**6) == []
    assert world.dropped == []


def test_expectations_expire_past_one_that_has_ended() -> None:
    world = World()
    world.expect(make_pod("db"), "b")
    world.expect(WEB, "a")
    world.placements.drop("uid-of-db")
    assert world.expired_after(10**6) == [UID]


def test_a_placement_keeps_the_plan_that_it_was_made_with() -> None:
    world, plan = World(), object()
    assert world.placements.expect(WEB, UID, "a", plan=plan).plan is plan
    assert world.placements.assume(WEB, UID, "a").plan is plan
    assert world.placements.assume(WEB, UID, "b", plan=plan).plan is plan
    assert world.placements.assume(WEB, UID, "a").plan is None


def test_what_has_ended_is_not_remembered_until_its_time_is_up() -> None:
    world = World()
    pods = [make_pod(f"web-{number}") for number in range(1000)]
    world.known.update(pod.metadata.uid for pod in pods)
    for pod in pods:
        world.expect(pod, "a")
    # The watch knows them all: they may take ten minutes.
    assert world.expired_after(UNKNOWN_SECONDS) == []
    assert world.placements.deadline_count == 1000
    for pod in pods[:-10]:
        world.placements.fulfil(pod.metadata.uid)
    assert world.expired_after(1) == []
    assert world.placements.deadline_count <= 2 * 10 + SPARE_DEADLINES
    assert world.expired_after(600) == [pod.metadata.uid for pod in pods[-10:]]
    assert world.placements.deadline_count == 0

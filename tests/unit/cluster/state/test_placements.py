import pytest

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.state.occupancy import Occupancy
from extender_service.cluster.state.placements import Placements
from extender_service.kube.types.core import Pod
from tests.support.objects import Undo, make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = WEB.metadata.uid


class World:
    """Placements on nodes a and b."""

    def __init__(self) -> None:
        self.occupancy = Occupancy()
        self.placements = Placements(self.occupancy)
        self.dropped: list[str] = []
        for name in ("a", "b"):
            self.occupancy.nodes.apply(make_node(name))

    def place(self, pod: Pod, node_name: str) -> None:
        uid = pod.metadata.uid
        self.placements.place(pod, uid, node_name, Undo(lambda: self.dropped.append(uid)))

    def requested(self, node_name: str) -> int:
        return int(self.occupancy.nodes.requested[CPU_MILLI, self.occupancy.nodes.row_of[node_name]])


def test_a_placed_pod_counts_on_the_node_chosen_for_it() -> None:
    world = World()
    world.place(WEB, "a")
    placement = world.placements.get(UID)
    assert placement is not None
    assert (placement.node_name, placement.assumed, len(world.placements)) == ("a", False, 1)
    assert (world.requested("a"), world.requested("b")) == (1000, 0)
    assert [known.uid for known in world.placements] == [UID]


def test_choosing_again_moves_the_pod() -> None:
    world = World()
    world.place(WEB, "a")
    world.place(WEB, "b")
    assert (world.requested("a"), world.requested("b")) == (0, 1000)
    assert (len(world.placements), world.dropped) == (1, [UID])


def test_dropping_leaves_no_trace_and_undoes_what_was_reserved() -> None:
    world = World()
    world.place(WEB, "a")
    assert world.placements.drop_unreported(UID) is not None
    assert world.placements.drop_unreported(UID) is None
    assert (world.requested("a"), len(world.placements), len(world.occupancy.pods)) == (0, 0, 0)
    assert world.dropped == [UID]


@pytest.mark.parametrize(("was_bound", "undone"), [(False, [UID]), (True, [])])
def test_the_end_of_a_pod_undoes_what_was_reserved_unless_it_was_bound(was_bound: bool, undone: list[str]) -> None:
    world = World()
    world.place(WEB, "a")
    placement = world.placements.get(UID)
    assert placement is not None
    assert placement.reservation is not None
    placement.reservation.post_bind_has_run = was_bound
    assert world.placements.end_unreported(UID) is placement
    assert world.placements.end_unreported(UID) is None
    assert (world.requested("a"), len(world.placements), len(world.occupancy.pods)) == (0, 0, 0)
    assert world.dropped == undone


def test_fulfilling_undoes_nothing() -> None:
    world = World()
    world.place(WEB, "a")
    assert world.placements.fulfil_unreported(UID) is not None
    assert (world.requested("a"), len(world.placements), world.dropped) == (0, 0, [])


def test_a_slot_that_is_handed_over_goes_on_to_count() -> None:
    world = World()
    world.place(WEB, "a")
    slot = world.placements.hand_over(UID)
    assert world.occupancy.pods[slot].uid == UID
    assert (world.requested("a"), len(world.placements), world.placements.get(UID), world.dropped) == (
        1000,
        0,
        None,
        [],
    )


@pytest.mark.parametrize("is_handed_over", [False, True])
@pytest.mark.parametrize("assumed", [False, True])
def test_post_bind_runs_where_the_watch_shows_a_pod_that_no_binding_of_ours_ends(
    assumed: bool, is_handed_over: bool
) -> None:
    world = World()
    reservation = Undo(lambda: None)
    world.placements.place(WEB, UID, "a", reservation).assumed = assumed
    if is_handed_over:
        world.placements.hand_over(UID)
    else:
        world.placements.fulfil_unreported(UID)
    assert reservation.post_bind_runs == (0 if assumed else 1)

"""What kube-scheduler misses of nodes is excused, and nothing else."""

from typing import Any, Final

import pytest

from extender_service.kube.types.core import LabelSelector, Pod, TopologySpreadConstraint
from tests.support.clusters.queue_worlds import changed
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.kinds import NODES
from tests.worlds.waits.waiting import HOST, LONELY, TOO_LARGE, Waiting, anti_affinity

_SPREAD: Final = TopologySpreadConstraint(1, "rack", "DoNotSchedule", LabelSelector())
UNEVEN: Final = changed(make_pod("p"), topology_spread_constraints=(_SPREAD,))

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.mark.parametrize(
    ("minor", "is_tainted", "steps", "is_excused"),
    [
        (31, True, (Waiting.change, Waiting.leave), True),
        (31, True, (Waiting.change, Waiting.unreserve), True),
        (31, True, (Waiting.change,), False),  # it was not full
        (31, True, (Waiting.change, Waiting.leave_another_node), False),
        (31, True, (Waiting.leave, Waiting.look, Waiting.change), False),
        (31, True, (Waiting.report, Waiting.report, Waiting.leave), False),
        (31, False, (Waiting.change, Waiting.leave), False),  # that a pod leaves wakes it
        (34, True, (Waiting.change, Waiting.leave), False),  # hints replace the check
    ],
)
@in_event_loop
async def test_a_change_of_a_node_that_was_full(minor: int, is_tainted: bool, steps: Any, is_excused: bool) -> None:
    waiting = Waiting(minor, is_tainted=is_tainted)
    if Waiting.report in steps:
        waiting.report()
        waiting.look()
        waiting.try_again()
    for step in steps:
        step(waiting)
        waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "has_hints", "rejected_by", "steps", "is_excused"),
    [
        (33, False, "NodeAffinity", (Waiting.change, Waiting.grow), True),
        (33, False, "NodeAffinity", (Waiting.grow, Waiting.grow), False),  # nothing else let the pod in
        (33, False, "NodeResourcesFit", (Waiting.change, Waiting.grow), False),  # its plugin is asked
        (31, False, "NodeAffinity", (Waiting.change, Waiting.grow), False),  # so is this one there
        (33, True, "NodeAffinity", (Waiting.change, Waiting.grow), False),  # hints replace the check
    ],
)
@in_event_loop
async def test_a_change_of_a_node_that_was_too_small(
    minor: int, has_hints: bool, rejected_by: str, steps: Any, is_excused: bool
) -> None:
    waiting = Waiting(minor, rejected_by=rejected_by, gates={"SchedulerQueueingHints": has_hints})
    for step in steps:
        step(waiting)
        waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "pod", "has_pods", "is_excused"),
    [
        (31, LONELY, True, True),
        (31, UNEVEN, True, True),
        (31, LONELY, False, False),
        (31, UNEVEN, False, True),  # an empty node can be what makes the spread uneven
        (31, TOO_LARGE, True, False),  # pods of other nodes do not matter to it
        (34, LONELY, True, True),
        (34, UNEVEN, True, False),  # its plugin is asked
    ],
)
@in_event_loop
async def test_a_node_that_is_gone(minor: int, pod: Pod, has_pods: bool, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod)
    if not has_pods:
        waiting.leave_another_node()
    waiting.look()
    assert not waiting.is_excused()
    waiting.etcd.delete(NODES, "b")
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("pod", "labels", "is_excused"),
    [
        (LONELY, {HOST: "c"}, True),
        (LONELY, {"rack": "1"}, False),  # its affinity is not about racks
        (UNEVEN, {"rack": "1"}, True),
        (UNEVEN, {HOST: "c"}, False),
        (TOO_LARGE, {HOST: "c"}, False),
    ],
)
@pytest.mark.parametrize(("has_pods", "is_full"), [(True, True), (True, False), (False, True)])
@in_event_loop
async def test_without_hints_a_node_that_comes_with_pods_and_has_no_room_may_let_a_pod_in_elsewhere(
    pod: Pod, labels: dict[str, str], is_excused: bool, has_pods: bool, is_full: bool
) -> None:
    waiting = Waiting(31, pod=pod)
    if has_pods:
        waiting.put_pod("on-c", "c")
    waiting.put_node("c", **labels)
    waiting.scheduler.cluster.apply_node(make_node("c", {"cpu": "1", "pods": "0" if is_full else "9"}))
    waiting.look()
    assert waiting.is_excused() == (is_excused and has_pods and is_full)


@pytest.mark.parametrize(
    ("minor", "after", "is_excused"),
    [
        (31, {"rack": "1", "disk": "hdd"}, True),
        (34, {"rack": "1", "disk": "hdd"}, True),
        (34, {"rack": "2", "disk": "hdd"}, False),  # its rack wakes the pod
        (34, {"rack": "1", "disk": "ssd", "size": "large"}, False),  # it counts as before
    ],
)
@in_event_loop
async def test_a_node_that_node_affinity_does_not_select_any_more_counts_no_more_for_spread(
    minor: int, after: dict[str, str], is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=changed(UNEVEN, node_selector={"disk": "ssd"}), rejected_by="PodTopologySpread")
    waiting.put_node("b", rack="1", disk="ssd")
    waiting.look()
    waiting.try_again()
    waiting.put_node("b", **after)
    waiting.look()
    assert waiting.is_excused() == is_excused
    waiting.try_again()
    assert not waiting.is_excused()


@pytest.mark.parametrize(
    ("minor", "pod", "after", "is_excused"),
    [
        (32, TOO_LARGE, {HOST: "b", "zone": "2"}, True),
        (37, TOO_LARGE, {HOST: "b", "zone": "2"}, True),
        (37, TOO_LARGE, {HOST: "b", "zone": "1", "disk": "ssd"}, False),  # no anti-affinity is about disks
        (32, LONELY, {HOST: "b", "zone": "2"}, False),  # a term of its own is about this node
        (33, LONELY, {HOST: "b", "zone": "2"}, True),  # but is not about what has changed
        (33, LONELY, {HOST: "c", "zone": "2"}, False),
    ],
)
@in_event_loop
async def test_with_hints_a_node_on_which_a_pod_kept_this_one_out_is_in_another_topology(
    minor: int, pod: Pod, after: dict[str, str], is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=changed(pod, labels={"app": "p"}), rejected_by="InterPodAffinity")
    waiting.put_node("b", **{HOST: "b", "zone": "1"})
    waiting.put_pod("q", "b", affinity=anti_affinity("p", topologyKey="zone"))
    waiting.look()
    waiting.try_again()
    waiting.put_node("b", **after)
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("pod", "fits_on", "is_excused"),
    [
        (TOO_LARGE, "c", True),
        (TOO_LARGE, "a", False),  # what came is not where it fits
        (LONELY, "c", False),  # a new node with the topology of a term of its own wakes it
    ],
)
@in_event_loop
async def test_with_hints_a_new_node_on_which_no_pod_keeps_this_one_out(
    pod: Pod, fits_on: str, is_excused: bool
) -> None:
    waiting = Waiting(37, pod=changed(pod, labels={"app": "p"}), rejected_by="InterPodAffinity")
    waiting.put_pod("q", "b", affinity=anti_affinity("p"))
    waiting.look()
    waiting.put_node("c", **{HOST: "c"})
    waiting.look()
    assert waiting.is_excused(fits_on) == is_excused

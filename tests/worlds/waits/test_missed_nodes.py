"""What kube-scheduler misses of nodes is excused, and nothing else."""

from typing import Any, Final

import pytest

from extender_service.kube.types.core import LabelSelector, Pod, TopologySpreadConstraint
from tests.support.clusters.queue_worlds import changed
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod
from tests.worlds.api_server.kinds import NODES
from tests.worlds.waits.waiting import LONELY, TOO_LARGE, Waiting

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

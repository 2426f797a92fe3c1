"""The end of a nomination that kube-scheduler does not report is excused, and no other."""

from collections.abc import Callable

import pytest

from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.waits.waiting import Waiting

pytestmark = pytest.mark.usefixtures("stand_ins")


def end(waiting: Waiting, node_name: str) -> None:
    """Let a scheduler have a nomination of pod `q` for a node no more."""
    waiting.excuses._nominations._node_of = {"q": node_name}
    waiting.look()


@pytest.mark.parametrize(
    ("minor", "rejected_by", "node_name", "is_excused"),
    [
        (31, "NodeResourcesFit", "a", True),
        (31, "NodeResourcesFit", "b", False),
        (34, "NodeResourcesFit", "a", False),  # the room is reported
        (34, "PodTopologySpread", "a", True),  # but not to this plugin
        (36, "PodTopologySpread", "a", False),
    ],
)
@in_event_loop
async def test_a_nomination_that_has_ended(minor: int, rejected_by: str, node_name: str, is_excused: bool) -> None:
    waiting = Waiting(minor, rejected_by=rejected_by)
    waiting.put_pod("q", "", nominated_for=node_name)
    waiting.put_pod("q", "")
    end(waiting, node_name)
    assert waiting.is_excused() == is_excused


def clear(waiting: Waiting) -> None:
    waiting.put_pod("q", "")


def bind_elsewhere(waiting: Waiting) -> None:
    waiting.put_pod("q", "b")


def bind_there(waiting: Waiting) -> None:
    waiting.put_pod("q", "a")


def go(waiting: Waiting) -> None:
    waiting.etcd.delete(PODS, "default/q")


def be_on_its_way_elsewhere(waiting: Waiting) -> None:
    waiting.scheduler.cluster.apply_node(make_node("b"))
    waiting.scheduler.cluster.placements.place(make_pod("q", uid="q"), "q", "b")


def keep(waiting: Waiting) -> None:
    """The API server has it still."""


@pytest.mark.parametrize(
    ("minor", "then", "is_excused"),
    [
        (33, clear, False),
        (35, clear, False),
        (35, go, False),
        (34, bind_elsewhere, False),
        (35, bind_elsewhere, True),  # that says nothing of the nomination
        (35, bind_there, False),
        (34, be_on_its_way_elsewhere, True),  # that it is bound will be reported
        (34, keep, True),
    ],
)
@in_event_loop
async def test_a_nomination_that_the_api_server_had(
    minor: int, then: Callable[[Waiting], None], is_excused: bool
) -> None:
    waiting = Waiting(minor)
    waiting.put_pod("q", "", nominated_for="a")
    then(waiting)
    end(waiting, "a")
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize("minor", [33, 37])
@pytest.mark.parametrize(("then", "is_excused"), [(clear, True), (go, True), (bind_elsewhere, True)])
@in_event_loop
async def test_a_nomination_that_the_api_server_never_had(
    minor: int, then: Callable[[Waiting], None], is_excused: bool
) -> None:
    waiting = Waiting(minor)
    waiting.put_pod("q", "")
    then(waiting)
    end(waiting, "a")
    assert waiting.is_excused() == is_excused

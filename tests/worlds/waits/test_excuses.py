"""What kube-scheduler leaves waiting, too, is excused, and nothing else."""

from types import SimpleNamespace

import pytest

from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.waits.waiting import Waiting, apart_from, term

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.mark.parametrize(
    ("minor", "rejected_by", "is_excused"),
    [
        (31, "DefaultPreemption", True),
        (35, "DefaultPreemption", True),
        (36, "DefaultPreemption", False),  # such a victim backs off
        (31, "NodeResourcesFit", False),
    ],
)
@in_event_loop
async def test_a_victim_that_waited_in_permit(minor: int, rejected_by: str, is_excused: bool) -> None:
    assert Waiting(minor, rejected_by=rejected_by).is_excused() == is_excused


@pytest.mark.parametrize(
    ("rejected_by", "is_excused"),
    [("InterPodAffinity", True), ("PodTopologySpread", True), ("NodeResourcesFit", False)],
)
@in_event_loop
async def test_a_restore_may_change_what_plugins_take_no_notice_of(rejected_by: str, is_excused: bool) -> None:
    waiting = Waiting(34, rejected_by=rejected_by)
    waiting.etcd.restore(waiting.etcd.save(), bump_revision=1000)
    waiting.look()
    assert waiting.is_excused() == is_excused
    waiting.observed.world.run(70.0)
    waiting.look()
    assert waiting.is_excused() == is_excused
    waiting.try_again()
    assert not waiting.is_excused()


@pytest.mark.parametrize(
    ("minor", "uid", "bound_to", "is_excused"),
    [
        (34, "gone", "a", True),
        (34, "gone", "b", False),
        (34, "on-a", "a", False),  # it is still there
        (35, "gone", "a", False),  # its place is free at once
    ],
)
@in_event_loop
async def test_a_pod_was_deleted_while_it_is_being_bound(
    minor: int, uid: str, bound_to: str, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(minor)
    cluster, binder = waiting.scheduler.cluster, waiting.scheduler.engine.binder
    cluster.apply_pod(make_pod("on-a", "a", uid="on-a"))
    monkeypatch.setitem(binder._under_way, uid, SimpleNamespace(node_name=bound_to))
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("rejected_by", "found", "is_excused"), [("Extender", 6, True), ("Extender", 13, False), ("NodeAffinity", 6, False)]
)
@in_event_loop
async def test_an_extender_may_have_been_asked_about_other_nodes(
    rejected_by: str, found: int, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(31, rejected_by=rejected_by)
    sampling = SimpleNamespace(order=SimpleNamespace(rows=range(13)), nodes_to_find=lambda *_: found)
    monkeypatch.setattr(waiting.scheduler.scheduler._attempts, "_sampling", sampling)
    assert waiting.is_excused() == is_excused


@in_event_loop
async def test_with_hints_what_happens_while_a_pod_is_in_flight_is_missed_as_well() -> None:
    waiting = Waiting(34, pod=apart_from(term("x"), term("y")))
    waiting.put_pod("q", "b", {"app": "x"})
    waiting.look()
    queue = waiting.scheduler.queue
    queue.activate([waiting.info.pod])
    assert queue.pop() is waiting.info
    waiting.look()
    waiting.etcd.delete(PODS, "default/q")
    for _ in range(3):
        waiting.look()
    waiting.info.unschedulable_plugins = frozenset(("InterPodAffinity",))
    waiting.scheduler.clock.pass_seconds(4.0)
    assert queue.add_unschedulable_if_not_present(waiting.info, queue.scheduling_cycle)
    waiting.look()
    assert waiting.is_excused()
    waiting.try_again()
    assert not waiting.is_excused()

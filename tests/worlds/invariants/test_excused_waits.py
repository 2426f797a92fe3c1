"""What kube-scheduler leaves waiting, too, is excused, and nothing else."""

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from extender_service.config.rules import rules_of
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
)
from tests.support.clusters.queue_worlds import changed
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.waits import FittingPodsTried
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

TAINT = Taint("gone-soon", effect="NoSchedule")
TOO_LARGE = make_pod("p", requests={"cpu": "2"})
_NEAR_NONE = PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": "none"}))
_SPREAD = TopologySpreadConstraint(1, "rack", "DoNotSchedule", LabelSelector())
LONELY = changed(make_pod("p"), affinity=Affinity(pod_affinity=PodAffinity(required=(_NEAR_NONE,))))
UNEVEN = changed(make_pod("p"), topology_spread_constraints=(_SPREAD,))


class Waiting:
    """A pod that a scheduler has tried in vain five seconds ago: for a taint of its only node, or for lack of room.

    Another pod may be given, that does not fit.
    """

    def __init__(self, minor: int, *, is_tainted: bool = False, pod: Pod = TOO_LARGE) -> None:
        node = make_node("a", {"cpu": "1", "pods": "9"}, taints=[TAINT] if is_tainted else [])
        self.scheduler = SchedulerWorld(node, rules=rules_of(minor))
        self.scheduler.create(pod)
        self.scheduler.attempt()
        self.scheduler.clock.pass_seconds(5.0)
        self.observed = Observed(World(1), ApiServer(lambda: 0.0, Random(1)), [])
        self.rule = FittingPodsTried(self.observed)

    def is_excused(self) -> bool:
        [entry] = self.scheduler.queue.entries()
        return self.rule._is_excused(cast(SchedulerInsides, self.scheduler), entry.info, ["a"])


@pytest.mark.parametrize(
    ("minor", "is_tainted", "is_changed", "is_excused"),
    [
        (31, True, True, True),
        (31, True, False, False),
        (31, False, True, False),  # that a pod leaves wakes it
        (34, True, True, False),  # hints replace the check
    ],
)
@in_event_loop
async def test_a_change_of_a_node_that_was_full(
    minor: int, is_tainted: bool, is_changed: bool, is_excused: bool
) -> None:
    waiting = Waiting(minor, is_tainted=is_tainted)
    if is_changed:
        waiting.observed.model.etcd.put(NODES, "a", {"metadata": {"name": "a"}, "spec": {}, "status": {}})
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("is_leading", "uid", "seconds", "is_excused"),
    [
        (True, "uid-of-p", 0.0, True),
        (True, "uid-of-p", 326.0, False),  # the queue should have tried it again by itself
        (True, "uid-of-q", 0.0, False),  # it does not wait
        (False, "uid-of-p", 0.0, False),
    ],
)
@in_event_loop
async def test_only_what_waits_for_an_event_and_not_for_too_long(
    is_leading: bool, uid: str, seconds: float, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(31, is_tainted=True)
    waiting.observed.model.etcd.put(NODES, "a", {"metadata": {"name": "a"}, "spec": {}, "status": {}})
    scheduler = waiting.scheduler
    insides = SimpleNamespace(queue=scheduler.queue, cluster=scheduler.cluster, is_leading=is_leading)
    monkeypatch.setattr("tests.worlds.invariants.waits.scheduler_insides", lambda _: insides)
    scheduler.clock.pass_seconds(seconds)
    waiting.rule._observed = replace(waiting.observed, replicas=[cast(Process, None)])
    assert waiting.rule.excuses(uid, ["a"]) == is_excused


@pytest.mark.parametrize(
    ("minor", "node_name", "is_excused"),
    [
        (31, "a", True),
        (31, "b", False),
        (34, "a", False),  # the room is reported
    ],
)
@in_event_loop
async def test_a_nomination_that_has_ended(minor: int, node_name: str, is_excused: bool) -> None:
    waiting = Waiting(minor, is_tainted=False)
    waiting.rule._nominated = {"uid-of-q": node_name}
    waiting.rule._note_nominations()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "pod", "is_gone", "is_excused"),
    [
        (31, LONELY, True, False),  # without hints, the end of any pod wakes it
        (34, LONELY, True, True),
        (34, LONELY, False, False),
        (34, TOO_LARGE, True, False),  # another plugin rejected it
        (37, LONELY, True, False),
    ],
)
@in_event_loop
async def test_a_pod_that_has_ended(minor: int, pod: Pod, is_gone: bool, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod)
    etcd = waiting.observed.model.etcd
    etcd.put(PODS, "default/q", {"metadata": {"name": "q"}, "spec": {"nodeName": "b"}, "status": {}})
    if is_gone:
        etcd.delete(PODS, "default/q")
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
    etcd = waiting.observed.model.etcd
    etcd.put(NODES, "b", {"metadata": {"name": "b"}, "spec": {}, "status": {}})
    if has_pods:
        etcd.put(PODS, "default/q", {"metadata": {"name": "q"}, "spec": {"nodeName": "b"}, "status": {}})
    assert not waiting.is_excused()
    etcd.delete(NODES, "b")
    assert waiting.is_excused() == is_excused

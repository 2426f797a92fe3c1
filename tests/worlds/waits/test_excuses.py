"""What kube-scheduler leaves waiting, too, is excused, and nothing else."""

from random import Random
from typing import Any, cast

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
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
from tests.worlds.api_server.kinds import NAMESPACES, NODES, PODS, Kind
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.ledger import Ledger, LedgerEntry
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World
from tests.worlds.waits.excuses import Excuses

Object = dict[str, Any]

TAINT = Taint("gone-soon", effect="NoSchedule")
TOO_LARGE = make_pod("p", requests={"cpu": "2"})
_SPREAD = TopologySpreadConstraint(1, "rack", "DoNotSchedule", LabelSelector())
UNEVEN = changed(make_pod("p"), topology_spread_constraints=(_SPREAD,))


def _term(app: str, namespace_selector: LabelSelector | None = None) -> PodAffinityTerm:
    return PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": app}), namespace_selector=namespace_selector)


def apart_from(*terms: PodAffinityTerm) -> Pod:
    return changed(TOO_LARGE, affinity=Affinity(pod_anti_affinity=PodAffinity(required=terms)))


LONELY = changed(make_pod("p"), affinity=Affinity(pod_affinity=PodAffinity(required=(_term("none"),))))


class Leader(SchedulerWorld):
    """A scheduler that leads. `known` is what its watches have shown."""

    is_leading = True
    known: dict[Kind, int]


class Waiting:
    """A pod that a scheduler has tried in vain: for a taint of its only node, or for lack of room.

    Another pod may be given, that does not fit. `rejected_by` names the plugins that rejected it, if not those did.
    Pods are on the nodes `a` and `b`.
    """

    def __init__(self, minor: int, *, is_tainted: bool = False, pod: Pod = TOO_LARGE, rejected_by: str = "") -> None:
        node = make_node("a", {"cpu": "1", "pods": "9"}, taints=[TAINT] if is_tainted else [])
        self.scheduler = Leader(node, rules=rules_of(minor))
        self.observed = Observed(World(1), ApiServer(lambda: 0.0, Random(1)), [cast(Process, self.scheduler)])
        self.etcd = self.observed.model.etcd
        self.excuses = Excuses(self.observed)
        for name in ("a", "b"):
            self.etcd.put(NODES, name, {"metadata": {"name": name}, "spec": {}, "status": {}})
            self.put_pod(f"on-{name}", name)
        self.look()
        self.scheduler.create(pod)
        self.scheduler.attempt()
        [entry] = self.scheduler.queue.entries()
        self.info = entry.info
        if rejected_by:
            self.info.unschedulable_plugins = frozenset((rejected_by,))
        self.look()

    def put_pod(self, name: str, node_name: str, labels: Object | None = None, affinity: Object | None = None) -> None:
        metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
        spec: Object = {"nodeName": node_name, **({} if affinity is None else {"affinity": affinity})}
        self.etcd.put(PODS, f"default/{name}", {"metadata": metadata, "spec": spec, "status": {}})

    def look(self, *, sees: bool = True) -> None:
        """Let a second pass, in which the watches show all that is stored, or nothing."""
        if sees:
            self.scheduler.known = {NODES: self.etcd.revision, PODS: self.etcd.revision}
        self.observed.world.run(self.observed.now + 1.0)
        self.excuses.look()

    def is_excused(self) -> bool:
        return self.excuses.cover(cast(SchedulerInsides, self.scheduler), self.info, ["a"])

    # What may happen:

    def change(self) -> None:
        value = {"metadata": {"name": "a", "labels": {"revision": str(self.etcd.revision)}}, "spec": {}, "status": {}}
        self.etcd.put(NODES, "a", value)

    def report(self) -> None:
        conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": str(self.etcd.revision)}]
        value = {"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": conditions}}
        self.etcd.put(NODES, "a", value)

    def leave(self) -> None:
        self.etcd.delete(PODS, "default/on-a")

    def leave_another_node(self) -> None:
        self.etcd.delete(PODS, "default/on-b")

    def unreserve(self) -> None:
        pod = make_pod("q")
        self.excuses._note_reservation(LedgerEntry("unreserve", cast(Ledger, None), CycleState(pod), pod, "a"))


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.worlds.waits.excuses.scheduler_insides", lambda replica: replica)
    monkeypatch.setattr("tests.worlds.waits.excuses.known_versions", lambda insides: insides.known.items())


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
        waiting.info.queued_at += 1.0
        waiting.look()
    for step in steps:
        step(waiting)
        waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize("is_late", [True, False])
@in_event_loop
async def test_a_change_counts_from_when_the_watch_shows_it(is_late: bool) -> None:
    waiting = Waiting(31, is_tainted=True)
    waiting.change()
    for _ in range(30):
        waiting.look(sees=not is_late)
    waiting.info.queued_at += 30.0  # it was tried again
    waiting.look(sees=not is_late)
    for _ in range(20):
        waiting.look(sees=not is_late)
    waiting.look()
    waiting.leave()
    waiting.look()
    assert waiting.is_excused() == is_late


@in_event_loop
async def test_a_restore_of_etcd_may_change_each_node_and_take_pods_from_it() -> None:
    waiting = Waiting(31, is_tainted=True)
    waiting.etcd.restore(waiting.etcd.save(), bump_revision=1000)
    waiting.look()
    assert waiting.is_excused()
    waiting.observed.world.run(70.0)
    waiting.look()
    waiting.info.queued_at += 60.0
    waiting.look()
    assert not waiting.is_excused()


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
    waiting.excuses._nominated = {"uid-of-q": node_name}
    waiting.look()
    assert waiting.is_excused() == is_excused


TWO_TERMS = apart_from(_term("x"), _term("y"))
ONE_TERM = apart_from(_term("x"))
BY_NAMESPACE = apart_from(_term("x", LabelSelector({"color": "red"})))


@pytest.mark.parametrize(
    ("minor", "pod", "app", "is_excused"),
    [
        (34, TWO_TERMS, "x", True),
        (34, TWO_TERMS, "z", False),  # it was not kept out by this one
        (34, ONE_TERM, "x", False),  # the end of this pod wakes it
        (34, BY_NAMESPACE, "x", True),  # to hints, namespaces have no labels
        (34, LONELY, "x", False),
        (37, TWO_TERMS, "x", False),
        (37, BY_NAMESPACE, "x", True),
        (31, TWO_TERMS, "x", False),  # without hints, the end of any pod wakes it
    ],
)
@in_event_loop
async def test_a_pod_has_ended_that_kept_this_one_out(minor: int, pod: Pod, app: str, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod, rejected_by="InterPodAffinity")
    waiting.etcd.put(NAMESPACES, "default", {"metadata": {"name": "default", "labels": {"color": "red"}}})
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    assert not waiting.is_excused()
    waiting.etcd.delete(PODS, "default/q")
    waiting.look()
    assert waiting.is_excused() == is_excused


def near_to(*terms: PodAffinityTerm) -> Pod:
    return changed(make_pod("p"), affinity=Affinity(pod_affinity=PodAffinity(required=terms)))


BY_LABEL = _term("x", LabelSelector({"color": "red"}))


@pytest.mark.parametrize(
    ("minor", "pod", "app", "is_excused"),
    [
        (34, near_to(BY_LABEL), "x", True),  # to hints, namespaces have no labels
        (37, near_to(BY_LABEL), "x", True),
        (34, near_to(BY_LABEL), "z", False),  # the affinity means others
        (34, near_to(_term("x")), "x", False),  # that this pod comes wakes it
        (34, near_to(_term("x"), BY_LABEL), "x", True),
        (34, near_to(_term("z"), BY_LABEL), "x", False),  # one pod must match all terms
        (34, TWO_TERMS, "x", False),  # a pod that comes lets no one in that is to be apart from it
        (31, near_to(BY_LABEL), "x", False),  # without hints, the labels count
    ],
)
@in_event_loop
async def test_a_pod_has_come_to_a_node_that_affinity_means(minor: int, pod: Pod, app: str, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod, rejected_by="InterPodAffinity")
    waiting.etcd.put(NAMESPACES, "default", {"metadata": {"name": "default", "labels": {"color": "red"}}})
    waiting.put_pod("q", "", {"app": app})
    waiting.look()
    assert not waiting.is_excused()
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(("app", "is_excused"), [("z", True), ("x", False)])
@in_event_loop
async def test_a_pod_has_got_labels_that_affinity_means(app: str, is_excused: bool) -> None:
    waiting = Waiting(34, pod=near_to(BY_LABEL), rejected_by="InterPodAffinity")
    waiting.etcd.put(NAMESPACES, "default", {"metadata": {"name": "default", "labels": {"color": "red"}}})
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    waiting.info.queued_at += 2.0  # it was tried again
    waiting.look()
    waiting.put_pod("q", "b", {"app": "x", "is": "changed"})
    waiting.look()
    assert waiting.is_excused() == is_excused


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
    ("minor", "app", "rejected_by", "is_excused"),
    [
        (34, "p", "InterPodAffinity", True),
        (34, "x", "InterPodAffinity", False),  # its anti-affinity means others
        (34, "p", "NodeResourcesFit", False),
        (36, "p", "InterPodAffinity", False),
    ],
)
@in_event_loop
async def test_a_pod_has_ended_whose_anti_affinity_kept_this_one_out(
    minor: int, app: str, rejected_by: str, is_excused: bool
) -> None:
    metadata = msgspec.structs.replace(TOO_LARGE.metadata, labels={"app": "p"})
    pod = msgspec.structs.replace(TOO_LARGE, metadata=metadata)
    waiting = Waiting(minor, pod=pod, rejected_by=rejected_by)
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    waiting.put_pod("q", "b", {}, {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    waiting.look()
    waiting.etcd.delete(PODS, "default/q")
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

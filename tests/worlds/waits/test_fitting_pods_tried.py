"""A pod that waits for an event, though it fits and all know that, is reported."""

from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender_service.cluster.state.placements import Placement
from extender_service.config.rules import rules_of
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Fault, Plan
from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.truth import Judge, pending_pods
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster, _pod
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World
from tests.worlds.waits.fitting_pods_tried import FittingPodsTried, _depends_on_others


def do_nothing(_: ScheduledCluster) -> None:
    """All is as it is."""


def reported(
    cluster: ScheduledCluster, *, is_deaf: bool, before: Callable[[ScheduledCluster], None] = do_nothing
) -> list[str]:
    """What a full cluster reports in which pods go at 40 s. A scheduler that is deaf moves no pod for it."""

    def make_room() -> None:
        before(cluster)
        for replica in cluster.replicas if is_deaf else ():
            insides = scheduler_insides(replica)
            assert insides is not None
            insides.queue.move_all_to_active_or_backoff = lambda *arguments: None  # type: ignore[method-assign]
            insides.queue.assigned_pod_updated = lambda *arguments: None  # type: ignore[method-assign]
        bound = [item for item in cluster.model.etcd.all(PODS) if item.value["spec"].get("nodeName")]
        for item in bound[:5]:
            cluster.model.etcd.delete(PODS, item.key)

    cluster.world.timeline.call_at(40.0, make_room)
    cluster.run()
    return [line for line in cluster.holds.observed.violations.lines() if " fitting pods tried: " in line]


@pytest.mark.parametrize("mode", [None, "beside", "replace"])
def test_pods_that_are_tried_in_time_are_fine(mode: Mode | None) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, mode=mode))
    assert reported(cluster, is_deaf=False) == []


@pytest.mark.parametrize("mode", [None, "beside", "replace"])
def test_a_pod_that_misses_the_room_made_for_it_is_reported(mode: Mode | None) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, replicas=2, mode=mode))
    found = reported(cluster, is_deaf=True)
    assert found
    assert 43.0 < float(found[0].split()[0]) < 46.0
    assert found[0].endswith("waits for an event, though it has fitted for some seconds")


def test_a_pod_that_is_being_deleted_may_wait() -> None:
    def mark(cluster: ScheduledCluster) -> None:
        for item in [*pending_pods(cluster.model.etcd, ("default-scheduler",))]:
            pod = item.copy()
            pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:40Z", "finalizers": ["example.com/quota"]}
            cluster.model.etcd.put(PODS, item.key, pod)

    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, replicas=2))
    assert reported(cluster, is_deaf=True, before=mark) == []


@pytest.mark.parametrize("is_spread", [False, True])
def test_so_it_is_where_the_service_expects_another_pod_unless_it_depends_on_others(
    is_spread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, random: Random) -> dict[str, Any]:
        pod = _pod(name, random)
        selector, key = {"matchLabels": {"app": "none"}}, "kubernetes.io/hostname"
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        pod["spec"]["topologySpreadConstraints"] = [constraint] if is_spread else []
        return pod

    def expect_a_pod(cluster: ScheduledCluster) -> None:
        assert cluster.service is not None
        service = service_insides(cluster.service)
        waiting = next(pending_pods(cluster.model.etcd, ("default-scheduler",))).value["metadata"]
        assert service is not None
        service.cluster.placements.place(make_pod(waiting["name"], uid=waiting["uid"]), waiting["uid"], "node-0")

    monkeypatch.setattr("tests.worlds.scenarios._pod", make)
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, replicas=2, mode="replace"))
    assert bool(reported(cluster, is_deaf=True, before=expect_a_pod)) is not is_spread


LAGS = Fault(10.0, "lag", "api-server", 45.0, 0.5)
ANSWERS_LATE = Fault(10.0, "slow", "api-server", 1.0, 0.1)


@pytest.mark.parametrize(("faults", "counts"), [((LAGS,), True), ((LAGS, ANSWERS_LATE), False)])
def test_so_it_is_during_faults_that_leave_programs_and_requests_alone_though_there_is_a_service(
    faults: Plan, counts: bool
) -> None:
    scenario = Scenario(seed=1, minutes=2.0, nodes=1, pods=0, mode="replace", faults=faults, api_servers=1, until=60.0)
    cluster = ScheduledCluster(scenario)
    requests = {"resources": {"requests": {"cpu": "3"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "image", **requests}]}
    for number, at in enumerate((5.0, 8.0)):
        pod = {"metadata": {"name": f"pod-{number}"}, "spec": spec, "status": {"phase": "Pending"}}
        cluster.world.timeline.call_at(at, partial(cluster._create, "pods", pod))
    assert bool(reported(cluster, is_deaf=True)) is counts


@pytest.mark.parametrize(
    ("at", "has_service", "counts"),
    [
        (9.0, True, True),
        (10.0, True, False),
        (70.0, True, False),
        (71.0, True, True),
        (110.0, True, False),
        (120.0, True, True),  # faults are over
        (10.0, False, True),
    ],
)
def test_with_a_service_a_look_counts_for_nothing_during_other_faults_and_a_minute_later(
    at: float, has_service: bool, counts: bool
) -> None:
    service = cast(Process, SimpleNamespace()) if has_service else None
    faults = (ANSWERS_LATE, Fault(109.0, "kill", "replica-0"))
    world, model = World(1), ApiServer(lambda: 0.0, Random(1))
    rule = FittingPodsTried(Observed(world, model, [], service, calm_from=120.0, faults=faults))
    assert rule._counts(at) is counts


def test_so_it_is_where_something_is_on_its_way_at_each_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    is_current = FittingPodsTried._is_current

    def at_each_second_look(rule: FittingPodsTried, *arguments: Any) -> bool:
        return round(rule._observed.now) % 2 == 0 and is_current(rule, *arguments)

    monkeypatch.setattr(FittingPodsTried, "_is_current", at_each_second_look)
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, nodes=1, pods=40, replicas=2))
    assert reported(cluster, is_deaf=True)


def test_a_pod_that_has_been_tried_again_begins_to_wait_then() -> None:
    rule = FittingPodsTried(Observed(World(1), ApiServer(lambda: 0.0, Random(1)), []))
    for queued_at in (1.0, 2.0, 3.0, 4.0, 5.0):
        waiting = cast(Any, {"p": SimpleNamespace(queued_at=queued_at, key="default/p")})
        rule._keep(waiting)
        rule._note_fit("p", waiting["p"])
    assert rule._observed.violations.lines() == []


@pytest.mark.parametrize(
    ("is_leading", "uid", "seconds", "is_excused"),
    [
        (True, "uid-of-p", 0.0, True),
        (True, "uid-of-p", 331.0, False),  # the queue should have tried it again by itself
        (True, "uid-of-q", 0.0, False),  # it does not wait
        (False, "uid-of-p", 0.0, False),
    ],
)
@in_event_loop
async def test_only_what_waits_for_an_event_and_not_for_too_long_is_excused(
    is_leading: bool, uid: str, seconds: float, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "9"}))
    scheduler.create(make_pod("p", requests={"cpu": "2"}))
    scheduler.attempt()
    scheduler.clock.pass_seconds(seconds)
    insides = SimpleNamespace(queue=scheduler.queue, cluster=scheduler.cluster, is_leading=is_leading)
    monkeypatch.setattr("tests.worlds.waits.fitting_pods_tried.scheduler_insides", lambda _: insides)
    monkeypatch.setattr("tests.worlds.waits.excuses.Excuses.cover", lambda *_: True)
    replicas = [cast(Process, None)]
    rule = FittingPodsTried(Observed(World(1), ApiServer(lambda: 0.0, Random(1)), replicas))
    assert rule.excuses(uid, ["a"]) == is_excused


def test_pods_are_judged_beside_those_that_have_a_place() -> None:
    etcd = Etcd(lambda: 0.0)
    amounts = {"cpu": "1", "pods": "9"}
    etcd.put(NODES, "a", {"metadata": {"name": "a"}, "spec": {}, "status": {"allocatable": amounts}})
    requests = {"resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "p", "namespace": "default", "uid": "p"}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "main", **requests}]}
    pod = etcd.put(PODS, "default/p", {"metadata": metadata, "spec": spec, "status": {}})
    judge = Judge(etcd, rules_of(31))
    judge.place({"q": Placement(make_pod("q", uid="q", requests={"cpu": "1"}), "q", "a", 0, None)})
    assert judge.feasible(pod) == []
    judge.place({})
    assert judge.feasible(pod) == ["a"]


NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


@pytest.mark.parametrize(
    ("spec", "depends"),
    [
        ({"affinity": NEAR}, True),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, True),
        ({}, False),
        ({"affinity": APART}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False),
    ],
)
def test_a_pod_depends_on_others_that_is_to_be_near_to_them_or_spread(spec: dict[str, Any], depends: bool) -> None:
    assert _depends_on_others(Item("default/p", {"spec": spec}, 1)) is depends

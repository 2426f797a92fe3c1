import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import PreFilter
from extender_service.framework.plugin_errors import NoTimeLeftError
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.kube.types.core import LabelSelector, OwnerReference, Pod, Volume
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.workloads import ReplicaSet, ReplicaSetSpec, Service, ServiceSpec
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import Decision, decide
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from tests.support.objects import make_container, make_node, make_pod
from tests.support.storage_objects import make_claim, with_claims

NAMES = ["a", "b", "c"]
OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)
APP = {"app": "web"}


def replica(number: int, **metadata: Any) -> Pod:
    """A pod of a ReplicaSet, as the API server makes it: with a volume of its own for its token."""
    pod = make_pod(f"web-{number}", requests={"cpu": "500m"})
    own = {"labels": APP, "owner_references": (OWNER,), "creation_timestamp": f"2026-01-01T00:00:0{number}Z"}
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, **own, **metadata),
        spec=structs.replace(pod.spec, volumes=(Volume(name=f"token-{number}"),)),
    )


_urgent = make_pod("urgent", nominated="a")
URGENT = structs.replace(_urgent, spec=structs.replace(_urgent.spec, scheduler_name="default-scheduler"))


def replica_set(resource_version: str) -> ReplicaSet:
    metadata = structs.replace(make_pod("web").metadata, uid="web", resource_version=resource_version)
    return ReplicaSet(metadata, ReplicaSetSpec(LabelSelector(APP)))


class Placing:
    """Pods are asked about one after the other, with time in between; each counts where it was placed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = Cluster()
        for name in NAMES:
            self.cluster.apply_node(make_node(name, labels={"kubernetes.io/hostname": name}))
        self.cluster.workloads.apply(replica_set("1"))
        files = ClusterFile(self.cluster, [])
        profiles = Registry(IN_TREE).profiles(default_config(ARGS_TYPES), Handle(self.cluster, files))
        (self.profile,) = profiles.values()
        self.engine = Engine(self.cluster, Profiles({**profiles, "other": Profile("other", {})}), files)
        self.made = 0
        for module in ("ahead", "runs"):
            monkeypatch.setattr(f"extender_service.scheduling.reuse.{module}.decide", self._counted)

    def _counted(self, *args: Any, **options: Any) -> Any:
        self.made += 1
        return decide(*args, **options)

    def ask(self, pod: Pod, names: Sequence[str] = NAMES, deadline: float = math.inf) -> Decision:
        return self.engine.decide(Question(pod, self.engine.nodes.named(list(names)), deadline))

    def place(self, pod: Pod) -> Decision:
        self.cluster.drop_placement(pod_uid(pod))
        decision = self.ask(pod)
        self.engine.place(pod, decision.verdicts.view.name_at(decision.choose()), decision)
        self.engine.prepare()
        return decision

    def node_of(self, pod: Pod) -> str:
        placement = self.cluster.placements.get(pod_uid(pod))
        assert placement is not None
        return placement.node_name


@pytest.fixture
def placing(monkeypatch: pytest.MonkeyPatch) -> Placing:
    return Placing(monkeypatch)


@pytest.fixture
def ready(placing: Placing) -> Placing:
    """Two pods of a ReplicaSet have been placed, and a third has been decided about."""
    placing.place(replica(0))
    placing.place(replica(1))
    assert placing.made == 3
    return placing


def from_the_beginning(placing: Placing, pod: Pod) -> dict[str, int]:
    """What is decided about a pod now, whatever was decided before: totals by name."""
    view = placing.cluster.view(None)
    decision = decide(placing.profile, Question(pod, AllNodes(view)))
    assert decision.totals is not None
    return dict(zip(view.names_at(decision.feasible), decision.totals.tolist(), strict=True))


def totals(decision: Decision) -> dict[str, int]:
    assert decision.totals is not None
    return dict(zip(decision.verdicts.view.names_at(decision.feasible), decision.totals.tolist(), strict=True))


def test_the_third_pod_alike_is_decided_about_before_it_is_asked_for(placing: Placing) -> None:
    assert [placing.place(replica(number)).is_ahead for number in range(6)] == [False, False, True, True, True, True]
    assert placing.engine.ahead.counts == {"used": 4, "unused": 0}
    spread = [placing.node_of(replica(number)) for number in range(6)]
    assert sorted(spread[:3]) == sorted(spread[3:]) == NAMES


def test_it_is_the_decision_that_would_have_been_made(ready: Placing) -> None:
    expected = from_the_beginning(ready, replica(2))
    decided = ready.ask(replica(2))
    assert decided.is_ahead
    assert totals(decided) == expected
    assert len(set(expected.values())) == 2  # one node is left without a pod of the ReplicaSet


def test_what_plugins_noted_is_about_the_pod_that_came(ready: Placing) -> None:
    pod = replica(2)
    decided = ready.ask(pod, deadline=12345.0)
    assert decided.is_ahead
    assert decided.state.pod is pod
    assert decided.state.deadline == 12345.0


def confirm(placing: Placing) -> None:
    pod = replica(1)
    node_name = placing.node_of(pod)
    placing.cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))


NEUTRAL: dict[str, Callable[[Placing], object]] = {
    "nothing happens": lambda placing: None,
    "a pod comes that is not on any node": lambda placing: placing.cluster.apply_pod(replica(2)),
    "the watch shows where a pod was placed": confirm,
    "a node says the same again": lambda placing: placing.cluster.apply_node(
        make_node("a", labels={"kubernetes.io/hostname": "a"}, resource_version="7")
    ),
    "a controller tells of its progress": lambda placing: placing.cluster.workloads.apply(replica_set("2")),
}


@pytest.mark.parametrize("change", NEUTRAL.values(), ids=NEUTRAL)
def test_it_holds_while_nothing_changes_that_counts(ready: Placing, change: Callable[[Placing], object]) -> None:
    change(ready)
    expected = from_the_beginning(ready, replica(2))
    decided = ready.ask(replica(2))
    assert decided.is_ahead
    assert totals(decided) == expected


def test_nodes_may_be_named_in_another_order(ready: Placing) -> None:
    decided = ready.ask(replica(2), ["c", "a", "b"])
    assert decided.is_ahead
    assert decided.question.nodes.names == ["c", "a", "b"]


CHANGES: dict[str, Callable[[Placing], object]] = {
    "a node is cordoned": lambda placing: placing.cluster.apply_node(make_node("a", unschedulable=True)),
    "a node comes": lambda placing: placing.cluster.apply_node(make_node("d")),
    "a node goes": lambda placing: placing.cluster.remove_node("a"),
    "a pod comes to a node": lambda placing: placing.cluster.apply_pod(make_pod("other", "a")),
    "a pod is placed": lambda placing: placing.cluster.placements.place(make_pod("other"), "uid-of-other", "a"),
    "a pod that was placed is not bound": lambda placing: placing.cluster.drop_placement(pod_uid(replica(0))),
    "a pod is placed elsewhere": lambda placing: placing.cluster.apply_pod(
        make_pod("web-1", "d", uid=pod_uid(replica(1)))
    ),
    "a service comes": lambda placing: placing.cluster.workloads.apply(
        Service(make_pod("web").metadata, ServiceSpec(APP))
    ),
    "a controller goes": lambda placing: placing.cluster.workloads.remove(ReplicaSet, ("default", "web")),
    "a claim comes": lambda placing: placing.cluster.apply_storage(make_claim("data")),
    "room is made for a pod": lambda placing: placing.cluster.apply_pod(URGENT),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_is_made_again_after_a_change(ready: Placing, change: Callable[[Placing], object]) -> None:
    change(ready)
    assert not ready.ask(replica(2)).is_ahead
    assert ready.made == 4
    assert ready.engine.ahead.counts == {"used": 0, "unused": 1}


def test_it_is_made_again_if_a_nominated_pod_changes_and_changes_again(placing: Placing) -> None:
    """Twice, as the pod then has the slot of the table again that it had first."""
    placing.cluster.apply_pod(URGENT)
    placing.place(replica(0))
    placing.place(replica(1))
    for cpu in ("2", "4"):
        container = make_container({"cpu": cpu})
        changed = structs.replace(URGENT, spec=structs.replace(URGENT.spec, containers=(container,)))
        placing.cluster.apply_pod(changed)
    decided = placing.ask(replica(2))
    assert not decided.is_ahead
    assert "a" not in totals(decided)


OTHERS = {
    "labels": replica(2, annotations={"weight": "1"}),
    "namespace": structs.replace(replica(2), metadata=structs.replace(replica(2).metadata, namespace="other")),
    "requests": structs.replace(replica(2), spec=make_pod("web-2", requests={"cpu": "1"}).spec),
    "nominated": structs.replace(replica(2), status=make_pod("web-2", nominated="a").status),
    "claims": with_claims("web-2", "data"),
}


@pytest.mark.parametrize("pod", OTHERS.values(), ids=OTHERS)
def test_a_pod_that_is_not_alike_is_decided_about_by_itself(ready: Placing, pod: Pod) -> None:
    assert not ready.ask(pod).is_ahead


def test_fewer_nodes_are_decided_about_by_themselves(ready: Placing) -> None:
    assert not ready.ask(replica(2), ["a", "b"]).is_ahead


def test_another_profile_decides_by_itself(ready: Placing) -> None:
    pod = replica(2)
    others = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name="other"))
    assert not ready.ask(others).is_ahead


def test_it_is_used_once(ready: Placing) -> None:
    assert [ready.ask(replica(2)).is_ahead, ready.ask(replica(2)).is_ahead] == [True, False]


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([replica(0)] * 3, id="one pod again and again"),
        pytest.param(
            [make_pod(f"pod-{number}", requests={"cpu": f"{number + 1}m"}) for number in range(3)], id="unlike"
        ),
        pytest.param([with_claims(f"pod-{number}", "data") for number in range(3)], id="with claims"),
    ],
)
def test_nothing_is_decided_ahead_for(placing: Placing, pods: list[Pod]) -> None:
    placing.cluster.apply_storage(make_claim("data"))
    placing.profile.reserve = ()  # the claim cannot be bound
    for pod in pods:
        placing.cluster.drop_placement(pod_uid(pod))
        placing.engine.place(pod, "a", placing.ask(pod))
        placing.engine.prepare()
    assert placing.made == len(pods)


class ByName(PreFilter):
    """Goes by who the pod is."""

    name: ClassVar[str] = "ByName"

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        assert pod.metadata.name


def test_a_plugin_that_may_tell_pods_apart_is_asked_about_each(placing: Placing) -> None:
    placing.profile.pre_filter += (ByName(None, None),)  # type: ignore[arg-type]
    assert not any(placing.place(replica(number)).is_ahead for number in range(4))


def test_pods_that_find_no_room_are_decided_about_by_themselves(placing: Placing) -> None:
    """So the decision is as late as it can be, and every refusal has its reasons."""
    for name in NAMES:
        placing.cluster.apply_node(make_node(name, {"cpu": "4", "memory": "8Gi", "pods": "1" if name != "a" else "0"}))
    assert [placing.place(replica(number)).is_ahead for number in range(2)] == [False, False]
    decided = placing.ask(replica(2))
    assert not decided.is_ahead
    assert not len(decided.feasible)


def test_the_more_was_decided_in_vain_the_less_is(placing: Placing) -> None:
    node = make_node("a", labels={"kubernetes.io/hostname": "a"})
    for number in range(400):
        placing.place(replica(number % 10, annotations={"number": str(number // 100)}))
        placing.cluster.drop_placement(pod_uid(replica(number % 10)))
        placing.cluster.apply_node(
            structs.replace(node, metadata=structs.replace(node.metadata, labels={"n": str(number)}))
        )
    assert placing.engine.ahead.counts["used"] == 0
    assert 7 <= placing.engine.ahead.counts["unused"] <= 14


class Slow(PreFilter):
    """Takes all the time that there is."""

    name: ClassVar[str] = "Slow"
    treats_alike: ClassVar[bool] = True
    asked = 0

    def pre_filter(self, state: CycleState, pod: Pod) -> None:
        self.asked += 1
        if state.deadline < math.inf:
            raise NoTimeLeftError


def test_decisions_that_take_long_are_seldom_tried_ahead(placing: Placing) -> None:
    slow = Slow(None, None)  # type: ignore[arg-type]
    placing.profile.pre_filter += (slow,)
    for number in range(100):
        placing.place(replica(number % 10))
    assert 106 <= slow.asked <= 108
    assert placing.engine.ahead.counts == {"used": 0, "unused": 0}


def test_a_plugin_that_fails_does_so_when_it_is_asked(ready: Placing, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(type(ready.profile.score[0][0]), "score", failing)
    decided = ready.ask(replica(2))
    assert decided.is_ahead
    ready.engine.place(replica(2), "a", decided)
    ready.engine.prepare()
    with pytest.raises(Exception, match="failed with: ValueError: no"):
        ready.ask(replica(3))

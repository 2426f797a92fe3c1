"""What is decided about pods alike in a row is what would be decided about each of them from the beginning."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.loading import default_config
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, Plugin, PreFilter, PreScore, Reach, Reserve, Score
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import Code, Rejections, Status, unschedulable
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from extender_service.kube.types.workloads import ReplicaSet, ReplicaSetSpec
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.decision import Decision, decide
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.states_ahead import LookingAhead
from tests.support.objects import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)


APP = {"app": "web"}


@pytest.fixture(autouse=True)
def few_nodes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at topologies instead of nodes, as in large clusters."""
    monkeypatch.setattr("extender_service.plugins.shared.topology.MANY_NODES", 12)


class Loop:
    """Pods are decided about and placed one after the other, each by a decision that is compared with a new one."""

    def __init__(
        self, nodes: int = 4, *, minor: int = 31, plugins: Sequence[Plugin] = (), random: Random | None = None
    ):
        rules = rules_of(minor)
        self.cluster = Cluster(rules)
        draw = random or Random(0)
        for number in range(nodes):
            self.cluster.apply_node(
                make_node(
                    f"n{number}",
                    {"cpu": str(draw.choice([1, 2, 4])), "memory": f"{draw.choice([2, 4])}Gi", "pods": "20"},
                    labels={ZONE: f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"},
                    taints=[Taint("soft", "", "PreferNoSchedule")] if draw.random() < 0.3 else (),
                )
            )
        self.cluster.workloads.apply(
            ReplicaSet(structs.replace(make_pod("web").metadata, uid="web"), ReplicaSetSpec(LabelSelector(APP)))
        )
        files = ClusterFile(self.cluster, [])
        handle = Handle(self.cluster, files)
        profiles = Registry(IN_TREE, rules=rules).profiles(default_config(ARGS_TYPES, rules), handle)
        (self.profile,) = profiles.values()
        self.profile.random = Random(1)
        for plugin in plugins:
            if isinstance(plugin, PreFilter):
                self.profile.pre_filter += (plugin,)
            if isinstance(plugin, Filter):
                self.profile.filter += (plugin,)
            if isinstance(plugin, PreScore):
                self.profile.pre_score += (plugin,)
            if isinstance(plugin, Score):
                self.profile.score += ((plugin, 1),)
            if isinstance(plugin, Reserve):
                self.profile.reserve += (plugin,)
        self.engine = Engine(self.cluster, Profiles(profiles), files)

    @property
    def repeated(self) -> int:
        return self.engine.runs.repeated

    def decide(self, pod: Pod) -> Decision:
        """Return the decision, which is the same as one from the beginning."""
        expected = decide(self.profile, self.question(pod), self.engine.cluster.nominated_for(pod, self.profile_names))
        decision = self.engine.decide(self.question(pod))
        assert portrait(decision) == portrait(expected)
        return decision

    def place(self, pod: Pod, node_name: str | None = None) -> str | None:
        """Place a pod where the decision chooses, or elsewhere; return the node, None if the pod fits nowhere."""
        decision = self.decide(pod)
        if not len(decision.feasible):
            return None
        chosen = decision.question.nodes.view.name_at(decision.choose())
        self.engine.place(pod, node_name or chosen, decision)
        return node_name or chosen

    def question(self, pod: Pod) -> Question:
        return Question(pod, self.engine.nodes.all(), refuses_unsupported=True)

    @property
    def profile_names(self) -> tuple[str, ...]:
        return (self.profile.scheduler_name,)


def portrait(decision: Decision) -> Any:
    scores = decision.scores
    return (
        decision.feasible.tolist(),
        decision.best.tolist(),
        None if decision.totals is None else decision.totals.tolist(),
        None if scores is None else {plugin: of.tolist() for plugin, of in scores.weighted.items()},
        sorted((str(status), positions.tolist()) for status, positions in decision.verdicts.groups()),
        decision.state.skipped_filters,
        decision.state.skipped_scores,
    )


def replica(number: int, cpu: str = "100m", **spec: Any) -> Pod:
    pod = make_pod(f"web-{number}", requests={"cpu": cpu, "memory": "100Mi"})
    metadata = structs.replace(pod.metadata, labels=APP, creation_timestamp=f"2026-01-01T00:00:{number % 60:02}Z")
    return structs.replace(pod, metadata=metadata, spec=structs.replace(pod.spec, **spec))


def test_the_next_of_two_pods_alike_is_not_decided_about_from_the_beginning() -> None:
    loop = Loop()
    for number in range(10):
        assert loop.place(replica(number)) is not None
    assert loop.repeated == 9


def test_a_decision_that_repeats_another_shares_its_verdicts_and_scores() -> None:
    loop = Loop()
    decisions = []
    for number in range(3):
        decision = loop.decide(replica(number))
        loop.engine.place(decision.question.pod, decision.question.nodes.view.name_at(decision.choose()), decision)
        decisions.append(decision)
    first = decisions[0]
    assert [decision.repeats for decision in decisions] == [None, first, first]
    assert all(decision.verdicts is first.verdicts and decision.scores is first.scores for decision in decisions)


def test_a_cluster_that_fills_up_is_filled_as_before() -> None:
    loop = Loop(nodes=6)
    placed = 0
    while loop.place(replica(placed)) is not None:
        placed += 1
    offered = [node.status.allocatable for node in loop.cluster.nodes.objects if node is not None]
    assert placed == sum(min(10 * int(node["cpu"]), 10 * int(str(node["memory"])[0]), 20) for node in offered)
    assert loop.repeated > placed / 2


WEB, OTHER = LabelSelector(APP), LabelSelector({"app": "other"})
ANTI = PodAffinity(required=(PodAffinityTerm("kubernetes.io/hostname", WEB),))
NEAR = Affinity(pod_affinity=PodAffinity(preferred=(WeightedPodAffinityTerm(10, PodAffinityTerm(ZONE, WEB)),)))
WITH_PORT = make_pod("web", requests={"cpu": "50m"}, ports=[80])
APART_BY_ZONE = Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(ZONE, WEB),)))
TOGETHER = Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm(ZONE, WEB),)))
SPREAD = TopologySpreadConstraint(1, ZONE, "ScheduleAnyway", WEB)
EVEN = TopologySpreadConstraint(1, ZONE, "DoNotSchedule", WEB)
EVEN_ON_HOSTS = TopologySpreadConstraint(2, "kubernetes.io/hostname", "DoNotSchedule", WEB)


def owned(pod: Pod) -> Pod:
    """The pod of a ReplicaSet, which is spread by default."""
    return structs.replace(pod, metadata=structs.replace(pod.metadata, owner_references=(OWNER,)))


def labelled(pod: Pod, labels: dict[str, str]) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels))


PODS: dict[str, Callable[[int], Pod]] = {
    "small": replica,
    "large": lambda number: replica(number, "700m"),
    "ports": lambda number: make_pod(f"web-{number}", requests={"cpu": "50m"}, ports=[80]),
    "nothing": lambda number: make_pod(f"web-{number}"),
    "tolerant": lambda number: replica(number, tolerations=(Toleration(operator="Exists"),)),
    "owned": lambda number: owned(replica(number)),
    "near": lambda number: replica(number, affinity=NEAR),
    "apart": lambda number: replica(number, affinity=Affinity(pod_anti_affinity=ANTI)),
    "spread": lambda number: replica(number, topology_spread_constraints=(SPREAD,)),
    "even": lambda number: replica(number, topology_spread_constraints=(EVEN, SPREAD)),
    "even and large": lambda number: replica(number, "700m", topology_spread_constraints=(EVEN,)),
    "even on hosts": lambda number: owned(replica(number, topology_spread_constraints=(EVEN_ON_HOSTS, EVEN))),
    "together": lambda number: replica(number, affinity=TOGETHER),
    "together and even": lambda number: replica(
        number, affinity=TOGETHER, topology_spread_constraints=(EVEN_ON_HOSTS,)
    ),
    "apart by zone": lambda number: replica(number, affinity=APART_BY_ZONE),
    "apart from others": lambda number: replica(
        number, affinity=Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(ZONE, OTHER),)))
    ),
    "other": lambda number: labelled(replica(number), {"app": "other"}),
    "huge": lambda number: replica(number, "100"),
    "far from all": lambda number: replica(number, node_selector={"disk": "none"}),
    "apart with ports": lambda number: replica(number, containers=WITH_PORT.spec.containers, affinity=APART_BY_ZONE),
}


@given(
    nodes=st.integers(1, 90),
    minor=st.integers(31, 37),
    seed=st.integers(0, 1 << 20),
    # Mostly several pods of a kind in a row.
    steps=st.lists(
        st.tuples(st.sampled_from([*PODS, "node", "gone", "confirm"]), st.sampled_from([1, 1, 2, 5, 9])),
        min_size=2,
        max_size=12,
    ).map(lambda runs: [step for step, times in runs for _ in range(times)]),
    choosy=st.booleans(),
    timed=st.booleans(),
)
def test_decisions_are_those_from_the_beginning_whatever_happens_in_between(
    nodes: int, minor: int, seed: int, steps: list[str], choosy: bool, timed: bool
) -> None:
    plugins = [Choosy(None, None)] if choosy else []  # type: ignore[arg-type]
    loop = Loop(nodes, minor=minor, random=Random(seed), plugins=plugins)
    if timed:
        loop.profile.recorder = Durations()
    placed: list[tuple[Pod, str]] = []
    for number, step in enumerate(steps):
        if step == "node":
            loop.cluster.apply_node(make_node(f"n{number % nodes}", {"cpu": "3", "memory": "3Gi", "pods": "9"}))
        elif step == "gone":
            if placed:
                pod, _ = placed.pop()
                loop.cluster.remove_pod((pod.metadata.namespace, pod.metadata.name))
                loop.cluster.drop_placement(pod.metadata.uid)
        elif step == "confirm":
            for pod, node_name in placed:
                loop.cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))
        else:
            pod = PODS[step](number)
            chosen = loop.place(pod)
            if chosen is not None:
                placed.append((pod, chosen))


def test_the_watch_that_shows_what_was_bound_ends_no_run() -> None:
    loop = Loop()
    for number in range(6):
        pod = replica(number)
        node_name = loop.place(pod)
        assert node_name is not None
        loop.cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))
    assert loop.repeated == 5


def test_a_pod_of_another_kind_ends_a_run() -> None:
    loop = Loop()
    for number in range(8):
        loop.place(replica(number, "100m" if number % 2 else "200m"))
    assert loop.repeated == 0


def test_after_many_pods_that_were_unlike_a_run_begins_with_the_second_of_two_alike() -> None:
    loop = Loop()
    for number in range(40):
        loop.place(replica(number, f"{number + 1}m"))
    assert loop.engine.runs.current is None
    for number in range(40, 45):
        loop.place(replica(number, "1m"))
    assert loop.repeated == 3


@pytest.mark.parametrize("other", ["huge", "far from all"])
def test_a_pod_of_another_kind_that_fits_nowhere_ends_no_run(other: str) -> None:
    loop = Loop()
    for number in range(10):
        assert loop.place(replica(number)) is not None
        assert loop.place(PODS[other](100 + number)) is None
    assert loop.repeated == 9


def test_a_pod_of_another_kind_that_fits_on_one_node_ends_a_run() -> None:
    loop = Loop(nodes=4)
    for number in range(8):
        loop.place(replica(number))
        assert loop.place(replica(100 + number, "50m", node_selector={"kubernetes.io/hostname": "n1"})) == "n1"
    assert loop.repeated == 0


def test_a_run_whose_pod_fits_nowhere_has_ended() -> None:
    loop = Loop(nodes=3, plugins=[Choosy(None, None)])  # type: ignore[arg-type]
    placed = 0
    while loop.place(replica(placed, "1m")) is not None:
        placed += 1
    assert placed == 15
    before = loop.repeated
    assert loop.place(replica(100, "1m")) is None
    assert loop.repeated == before


def test_a_pod_that_is_placed_elsewhere_than_chosen_ends_a_run() -> None:
    loop = Loop()
    for number in range(6):
        loop.place(replica(number), node_name=f"n{number % 4}")
    loop.place(replica(6))
    loop.place(replica(7))
    assert loop.repeated >= 1


def test_a_decision_that_was_not_followed_by_a_placement_is_made_again() -> None:
    loop = Loop()
    loop.place(replica(0))
    loop.decide(replica(1))
    before = loop.repeated
    loop.decide(replica(2))
    assert loop.repeated == before


def test_an_older_decision_may_be_placed_later() -> None:
    loop = Loop()
    loop.place(replica(0))
    early = loop.decide(replica(1))
    early.choose()
    loop.place(replica(2))
    loop.engine.place(replica(1), early.question.nodes.view.name_at(early.choose()), early)
    loop.place(replica(3))
    loop.place(replica(4))


def test_pods_that_keep_apart_from_each_other_are_placed_as_before() -> None:
    loop = Loop(nodes=6)
    placed = [loop.place(replica(number, affinity=Affinity(pod_anti_affinity=ANTI))) for number in range(7)]
    assert sorted(filter(None, placed)) == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert placed[6] is None
    # The last node is no choice, and a pod that fits nowhere is decided about from the beginning.
    assert loop.repeated == 4


@pytest.mark.parametrize("kind", ["even", "even on hosts", "together", "together and even"])
def test_pods_that_depend_on_where_others_are_placed_are_placed_as_before(kind: str) -> None:
    loop = Loop(nodes=30)
    for number in range(18):
        assert loop.place(PODS[kind](number)) is not None
    # The first pod that wants to be near others finds none.
    assert 12 < loop.repeated < 18


def test_nodes_that_have_no_room_are_named_with_their_reason_beside_those_that_are_too_near() -> None:
    loop = Loop(nodes=30, random=Random(3))
    placed = 0
    while loop.place(PODS["even and large"](placed)) is not None:
        placed += 1
    assert placed > 20
    assert loop.repeated > 10


def test_pods_that_others_keep_apart_from_are_not_placed_there() -> None:
    loop = Loop()
    loop.place(replica(0, "300m", affinity=Affinity(pod_anti_affinity=ANTI)))
    for number in range(1, 8):
        loop.place(replica(number))
    assert loop.repeated == 6


def test_pods_of_a_replica_set_are_spread_as_before() -> None:
    loop = Loop(nodes=9)
    placed = {loop.place(owned(replica(number))) for number in range(12)}
    assert len(placed) > 6
    assert loop.repeated == 11


def test_pods_that_prefer_to_be_together_are_placed_as_before() -> None:
    loop = Loop(nodes=9)
    for number in range(20):
        assert loop.place(replica(number, affinity=NEAR)) is not None
    # The first pod finds no other that it prefers, so the second one is decided about from the beginning.
    assert 10 < loop.repeated < 19


class Durations:
    """Receives durations."""

    def __init__(self) -> None:
        self.plugins = 0

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        pass

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins += 1

    def record_permit_wait(self, status: str, seconds: float) -> None:
        pass


def test_plugins_are_still_timed_for_a_sample_of_pods() -> None:
    loop = Loop()
    loop.profile.recorder = durations = Durations()
    for number in range(100):
        loop.place(replica(number, "1m"))
    assert durations.plugins > 0
    assert 60 < loop.repeated < 99


def test_a_run_goes_on_from_a_decision_whose_plugins_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    loop.place(replica(0))
    loop.place(replica(1))
    with monkeypatch.context() as patched:
        patched.setattr(loop.profile, "sampled_recorder", Durations)
        timed = loop.decide(replica(2))
    loop.engine.place(timed.question.pod, timed.question.nodes.view.name_at(timed.choose()), timed)
    assert timed.repeats is None
    assert loop.decide(replica(3)).repeats is timed
    assert loop.repeated == 2


class Alone(Score):
    """Prefers nodes with few pods."""

    name: ClassVar[str] = "Alone"
    treats_alike: ClassVar[bool] = True
    fails_on_changed = False

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        if self.fails_on_changed and nodes.is_changed:
            raise ValueError("no")
        pods = nodes.requested(nodes.dimension("pods"))
        return np.maximum(100 - 10 * pods, -1 if self.fails_on_changed else 0)


class AloneOnItsNode(Alone):
    reach: ClassVar[Reach] = Reach.NODE


class Normalized(AloneOnItsNode):
    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        return scores * 100 // max(int(scores.max()), 1)


class Choosy(Alone, Filter):
    """Rejects nodes with five pods."""

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        full = nodes.requested(nodes.dimension("pods")) >= 5
        return Rejections.where(full, unschedulable("full")) if full.any() else None


@pytest.mark.parametrize(("plugin", "repeated"), [(Alone, 19), (AloneOnItsNode, 19), (Normalized, 0), (Choosy, 19)])
def test_a_users_plugin_says_how_far_a_placed_pod_reaches(plugin: type[Score], repeated: int) -> None:
    loop = Loop(nodes=5, plugins=[plugin(None, None)])  # type: ignore[arg-type]
    for number in range(20):
        loop.place(replica(number, "1m"))
    assert loop.repeated == repeated


class Prepared(PreScore, AloneOnItsNode):
    """Counts the pods on each of the nodes that are to be scored before it scores them."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        state["scores"] = super().score(state, pod, nodes)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        scores: NDArray[np.int64] = state["scores"]
        return scores


class AllEqual(Random):
    """Draws no differences between nodes."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def random(self) -> float:
        return 1.0


@pytest.mark.parametrize("nodes", [5, 600])  # of 600, as many states are computed ahead as nodes are feasible
def test_plugins_prepare_for_the_nodes_whose_states_are_computed_ahead(nodes: int) -> None:
    loop = Loop(nodes, random=AllEqual(), plugins=[Prepared(None, None)])  # type: ignore[arg-type]
    for number in range(10):
        loop.place(replica(number, "1m"))
    assert loop.repeated == 9


class Asked(Normalized):
    """Counts how often it is asked how far it reaches, unless the pod tolerates something."""

    asked = 0

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        self.asked += 1
        return Reach.CLUSTER if pod.spec.tolerations else Reach.NODE


def test_plugins_are_seldom_asked_how_far_they_reach_where_decisions_cannot_be_repeated() -> None:
    plugin = Asked(None, None)  # type: ignore[arg-type]
    loop = Loop(nodes=30, plugins=[plugin])
    for number in range(120):
        assert loop.place(replica(number, "1m")) is not None
    assert plugin.asked == 2


def test_a_run_of_another_kind_begins_at_once() -> None:
    loop = Loop(nodes=30, plugins=[Asked(None, None)])  # type: ignore[arg-type]
    for number in range(4):
        loop.place(replica(number, "10m"))
    assert loop.repeated == 0
    for number in range(10, 20):
        loop.place(PODS["tolerant"](number))
    assert loop.repeated == 9


class Failing(Choosy):
    """Fails, as opposed to rejecting, on nodes with two pods."""

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        failing = nodes.requested(nodes.dimension("pods")) >= 2
        return Rejections.where(failing, Status(Code.ERROR, ("no",))) if failing.any() else None


class FailingOnItsNode(Failing):
    """Says that it reaches no further than a node."""

    name: ClassVar[str] = "FailingOnItsNode"
    reach: ClassVar[Reach] = Reach.NODE


@pytest.mark.parametrize("plugin", [Failing, FailingOnItsNode])
def test_a_filter_that_fails_is_an_error_as_before(plugin: type[Score]) -> None:
    loop = Loop(nodes=6, plugins=[plugin(None, None)])  # type: ignore[arg-type]
    pods = [replica(number, "1m", topology_spread_constraints=(EVEN,)) for number in range(20)]
    refused = next(pod for pod in pods if not _is_placed(loop, pod))
    with pytest.raises(CycleError, match="no"):
        loop.engine.decide(loop.question(refused))
    assert loop.repeated > 2


def _is_placed(loop: Loop, pod: Pod) -> bool:
    try:
        return loop.place(pod) is not None
    except CycleError:
        return False


class Picky(Choosy, PreFilter):
    """Names the only nodes to look at once there are some pods."""

    pods = 0

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        self.pods += 1
        return None if self.pods < 8 else {"n0", "n1", "n2"}


def test_a_plugin_may_name_nodes_later() -> None:
    picky = Picky(None, None)  # type: ignore[arg-type]
    picky.pods = 8
    loop = Loop(nodes=9, plugins=[picky])
    for number in range(9):
        loop.place(replica(number, "1m"))
    assert loop.repeated == 0


def test_a_plugin_that_fails_about_states_to_come_costs_no_decision() -> None:
    plugin = AloneOnItsNode(None, None)  # type: ignore[arg-type]
    plugin.fails_on_changed = True
    loop = Loop(nodes=5, plugins=[plugin])
    for number in range(20):
        loop.place(replica(number, "1m"))
    # Meanwhile, it is asked about nodes as they are.
    assert loop.repeated == 15


class Grumpy(Reserve):
    """Refuses every third pod."""

    name: ClassVar[str] = "Grumpy"
    asked = 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.asked += 1
        return unschedulable("not now") if self.asked % 3 == 0 else None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


def test_a_pod_that_is_refused_after_the_decision_counts_nowhere() -> None:
    loop = Loop(plugins=[Grumpy(None, None)])  # type: ignore[arg-type]
    refused = 0
    for number in range(30):
        try:
            loop.place(replica(number))
        except CycleError:
            refused += 1
    assert refused == 10
    assert loop.repeated > 0


class Diary(Reserve):
    """Sets aside a seat per pod, and gives back the seats that it finds in the state."""

    name: ClassVar[str] = "Diary"

    def __init__(self) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]
        self.found: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if "seat" in state:
            self.found.append(state["seat"])
        state["seat"] = pod.metadata.name
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


def test_what_was_set_aside_for_a_pod_is_not_in_the_state_of_the_next() -> None:
    diary = Diary()
    loop = Loop(plugins=[diary])
    for number in range(10):
        loop.place(replica(number))
    assert loop.repeated == 9
    assert diary.found == []


class Opener(Reserve):
    """Opens a node for the pods to come as it sets aside a place."""

    name: ClassVar[str] = "Opener"
    cluster: Cluster

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.cluster.apply_node(make_node("n0", {"cpu": "64", "memory": "64Gi", "pods": "64"}))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


def test_a_cluster_that_changes_in_reserve_ends_a_run() -> None:
    opener = Opener(None, None)  # type: ignore[arg-type]
    loop = Loop(plugins=[opener])
    opener.cluster = loop.cluster
    for number in range(5):
        loop.place(replica(number))


def test_a_pod_that_was_changed_before_it_was_placed_ends_a_run() -> None:
    loop = Loop()
    for number in range(20):
        decision = loop.decide(replica(number, "10m"))
        node_name = decision.question.nodes.view.name_at(decision.choose())
        loop.engine.place(replica(number, "10m" if number % 2 else "70m"), node_name, decision)


class Lost(AloneOnItsNode):
    """Does not know how far it reaches."""

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        raise ValueError("no idea")


class Stopped(AloneOnItsNode):
    """Asks its task in the background how far it reaches, which was cancelled."""

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        raise asyncio.CancelledError("stopped")


class Vague(AloneOnItsNode):
    """Says how far it reaches in words of its own."""

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        return "node"  # type: ignore[return-value]


@pytest.mark.parametrize("plugin", [Lost, Stopped, Vague])
def test_a_plugin_that_does_not_say_how_far_it_reaches_costs_no_decision(plugin: type[Score]) -> None:
    loop = Loop(nodes=5, plugins=[plugin(None, None)])  # type: ignore[arg-type]
    for number in range(20):
        loop.place(replica(number, "1m"))
    assert loop.repeated == 19


def test_a_run_goes_on_after_the_deadline_of_its_first_question() -> None:
    loop = Loop()
    now = 0.0
    loop.profile.clock = lambda: now
    for number in range(20):
        pod = replica(number)
        question = structs.replace(loop.question(pod), deadline=now + 1)
        decision = loop.engine.decide(question)
        loop.engine.place(pod, decision.question.nodes.view.name_at(decision.choose()), decision)
        now += 2
    assert loop.repeated == 19


def test_states_are_seldom_computed_where_runs_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = 0
    compute_states = LookingAhead._compute_states

    def counted(*arguments: Any) -> Any:
        nonlocal computed
        computed += 1
        return compute_states(*arguments)

    monkeypatch.setattr(LookingAhead, "_compute_states", counted)
    loop = Loop(nodes=30)
    for number in range(300):
        loop.place(replica(number, "1m"))
        if number % 2:
            loop.cluster.apply_node(make_node("n0", {"cpu": str(number + 1), "memory": "4Gi", "pods": "200"}))
    assert 1 < computed < 10
    assert loop.repeated == 150


class Slow(Alone):
    """Takes a while for each node, and gives up when the time is over."""

    name: ClassVar[str] = "Slow"
    seconds = 0.0
    now = 0.0

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        for _ in range(len(nodes)):
            state.require_time()
            self.now += self.seconds
        return super().score(state, pod, nodes)


class SlowOnItsNode(Slow):
    reach: ClassVar[Reach] = Reach.NODE


def test_states_that_take_too_long_to_compute_leave_time_for_a_decision_from_the_beginning() -> None:
    slow = SlowOnItsNode(None, None)  # type: ignore[arg-type]
    slow.seconds = 0.1
    loop = Loop(nodes=5, plugins=[slow])
    loop.profile.clock = lambda: slow.now
    for number in range(20):
        pod = replica(number, "1m")
        decision = loop.engine.decide(structs.replace(loop.question(pod), deadline=slow.now + 4))
        loop.engine.place(pod, decision.question.nodes.view.name_at(decision.choose()), decision)
    assert loop.repeated == 15


def test_a_plugin_that_takes_too_long_in_a_run_is_named() -> None:
    slow = Slow(None, None)  # type: ignore[arg-type]
    loop = Loop(nodes=5, plugins=[slow])
    loop.profile.clock = lambda: slow.now
    for number in range(3):
        loop.place(replica(number, "1m"))
    assert loop.repeated == 2
    slow.seconds = 5.0
    with pytest.raises(OutOfTimeError, match=r'^running Score plugins: plugin "Slow" failed with: the time '):
        loop.engine.decide(structs.replace(loop.question(replica(3, "1m")), deadline=slow.now + 4))
    slow.seconds = 0.0
    assert loop.place(replica(3, "1m")) is not None

"""Whatever happens in whatever order, the columns are what the objects of the moment add up to."""

from collections import Counter
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.expectations import UNKNOWN_SECONDS, Expectations
from extender_service.kube.types.core import (
    Affinity,
    AWSElasticBlockStore,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    Volume,
)
from tests.support.clock import Clock
from tests.support.from_scratch import amounts_of, matrix_of, ports_of, taken_by
from tests.support.objects import Undo, make_node, make_pod, watched
from tests.support.portrait import portrait

EXPECTED_SECONDS = 60.0
NODES = ("a", "b", "c", "d")
PODS = ("web-0", "web-1", "job-0", "job-1")
GPU, FPGA = "nvidia.com/gpu", "example.com/fpga"
LABEL_KEYS = ("zone", "arch", "nobody-has-this")
PORT_SETS: tuple[tuple[int, ...], ...] = ((), (80,), (80, 443), (53,))
APART = Affinity(pod_anti_affinity=PodAffinity((PodAffinityTerm("zone", LabelSelector({"app": "web"})),)))
DISK = Volume(name="data", aws_elastic_block_store=AWSElasticBlockStore("vol-1"))

node_names = st.sampled_from(NODES)
node_facts = st.fixed_dictionaries(
    {
        "amounts": st.fixed_dictionaries(
            {}, optional={"cpu": st.integers(0, 9), "pods": st.just(110), GPU: st.integers(0, 8), FPGA: st.just(1)}
        ),
        "labels": st.fixed_dictionaries(
            {}, optional={"zone": st.sampled_from(["x", "y", ""]), "arch": st.just("arm64")}
        ),
        "taints": st.lists(st.sampled_from([Taint("gpu", "", "NoSchedule"), Taint("old")]), max_size=2),
        "unschedulable": st.booleans(),
    }
)
pod_names = st.sampled_from(PODS)
uids = st.sampled_from(["first", "second"])
pod_facts = st.fixed_dictionaries(
    {
        "amounts": st.fixed_dictionaries(
            {}, optional={"cpu": st.integers(0, 5), "memory": st.just(10**9), GPU: st.integers(0, 2), FPGA: st.just(1)}
        ),
        "ports": st.sampled_from(PORT_SETS),
        "labels": st.sampled_from([{}, {"app": "web"}]),
        "affinity": st.sampled_from([None, APART]),
        "volumes": st.sampled_from([(), (DISK,)]),
        "priority": st.integers(0, 1),
        "nominated": st.sampled_from(["", "", "a"]),
    }
)


def node_of(name: str, facts: dict) -> Node:  # type: ignore[type-arg]
    return make_node(
        name,
        {resource: str(amount) for resource, amount in facts["amounts"].items()},
        labels=facts["labels"],
        taints=facts["taints"],
        unschedulable=facts["unschedulable"],
    )


@dataclass
class Placed:
    """A pod on a node ahead of the watch, as the test remembers it."""

    pod: Pod
    node_name: str
    assumed: bool
    made_at: float
    was_known: bool = False


class ClusterHistories(RuleBasedStateMachine):
    """Anything that an API server, kube-scheduler and time can do, and the objects that are left of it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.cluster = Cluster()
        self.expectations = Expectations(self.cluster, clock=self.clock, expected_seconds=EXPECTED_SECONDS)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.placed: dict[str, Placed] = {}
        self.dropped: list[str] = []
        self.told_of_drops: list[str] = []
        self.asked_labels: set[str] = set()

    # What happens.

    @rule(name=node_names, facts=node_facts)
    def node_is_added_or_changes(self, name: str, facts: dict) -> None:  # type: ignore[type-arg]
        self.nodes[name] = node_of(name, facts)
        self.cluster.apply_node(self.nodes[name])

    @rule(name=node_names)
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(
        name=pod_names,
        uid=uids,
        facts=pod_facts,
        node=st.just("") | node_names,
        phase=st.sampled_from(["Running", "Running", "Succeeded"]),
    )
    def pod_is_added_or_changes(self, name: str, uid: str, facts: dict, node: str, phase: str) -> None:  # type: ignore[type-arg]
        self.watch_shows(self.pod_of(name, uid, facts, node, phase))

    @precondition(lambda self: self.placed)
    @rule(data=st.data(), start=st.sampled_from(["", "2024-01-01T00:00:00Z"]), nominated=st.sampled_from(["", "b"]))
    def pod_is_bound_where_it_is_placed(self, data: st.DataObject, start: str, nominated: str) -> None:
        placed = self.placed[data.draw(st.sampled_from(sorted(self.placed)))]
        bound = structs.replace(placed.pod.spec, node_name=placed.node_name)
        status = structs.replace(placed.pod.status, phase="Running", start_time=start, nominated_node_name=nominated)
        self.watch_shows(structs.replace(placed.pod, spec=bound, status=status))

    def watch_shows(self, pod: Pod) -> None:
        name, node, phase = pod.metadata.name, pod.spec.node_name, pod.status.phase
        known = self.pods.pop(name, None)
        if known is not None and (known.metadata.uid != pod.metadata.uid or phase == "Succeeded"):
            self.forget_placement(known.metadata.uid)
        placed = self.placed.get(pod.metadata.uid)
        if placed is not None and phase == "Running" and node == placed.node_name:
            del self.placed[pod.metadata.uid]
        elif node or phase == "Succeeded":
            self.forget_placement(pod.metadata.uid)
        if phase == "Running":
            self.pods[name] = pod
        self.cluster.apply_pod(watched(pod))

    @rule(name=pod_names)
    def pod_goes(self, name: str) -> None:
        known = self.pods.pop(name, None)
        if known is not None:
            self.forget_placement(known.metadata.uid)
        self.cluster.remove_pod(("default", name))

    @rule(name=pod_names, uid=uids, facts=pod_facts, node=node_names)
    def node_is_chosen(self, name: str, uid: str, facts: dict, node: str) -> None:  # type: ignore[type-arg]
        pod = self.pod_of(name, uid, facts)
        if not self.is_bound(pod):
            self.forget_placement(pod.metadata.uid)
            self.placed[pod.metadata.uid] = Placed(pod, node, assumed=False, made_at=self.clock.now)
            undo = Undo(lambda: self.told_of_drops.append(pod.metadata.uid))
            self.expectations.expect(self.cluster.placements.place(pod, pod.metadata.uid, node, undo))

    @rule(name=pod_names, uid=uids, facts=pod_facts, node=node_names)
    def binding_begins(self, name: str, uid: str, facts: dict, node: str) -> None:  # type: ignore[type-arg]
        pod = self.pod_of(name, uid, facts)
        if not self.is_bound(pod):
            placed = self.placed.get(pod.metadata.uid)
            if placed is not None and placed.node_name == node:
                placed.assumed = True
                placement = self.cluster.placements.get(pod.metadata.uid)
                assert placement is not None
                placement.assume()
                return
            self.forget_placement(pod.metadata.uid)
            self.placed[pod.metadata.uid] = Placed(pod, node, assumed=True, made_at=self.clock.now)
            self.cluster.placements.place(pod, pod.metadata.uid, node).assume()

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def placement_is_dropped(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.placed)))
        self.forget_placement(uid)
        self.cluster.drop_placement(uid)

    @rule(seconds=st.sampled_from([1.0, UNKNOWN_SECONDS, 30.0, EXPECTED_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_seconds(seconds)
        known = {pod.metadata.uid for pod in self.pods.values()}
        for uid, placed in list(self.placed.items()):
            age = self.clock.now - placed.made_at
            if placed.assumed or age < UNKNOWN_SECONDS:
                continue
            placed.was_known = placed.was_known or uid in known
            if not placed.was_known or age >= EXPECTED_SECONDS:
                self.forget_placement(uid)
        self.expectations.expire()

    @rule(key=st.sampled_from(LABEL_KEYS))
    def label_is_asked_for(self, key: str) -> None:
        self.asked_labels.add(key)
        self.cluster.view(None).label(key)

    @rule(name=st.sampled_from([*NODES, "e"]), facts=node_facts)
    def request_brings_a_node_along(self, name: str, facts: dict) -> None:  # type: ignore[type-arg]
        node = node_of(name, facts)
        table = self.cluster.with_nodes([node])
        self.check_nodes(table, {**self.nodes, name: node})

    # What must hold then.

    @invariant()
    def columns_are_what_the_objects_add_up_to(self) -> None:
        self.check_nodes(self.cluster.nodes, self.nodes)
        assert set(self.cluster.node_names()) == set(self.nodes)
        assert self.cluster.node_count == len(self.nodes)

    @invariant()
    def pods_are_known(self) -> None:
        assert set(self.cluster.pod_keys()) == {("default", name) for name in self.pods}
        assert self.cluster.pod_count == len(self.pods)
        for pod in self.pods.values():
            facts = self.cluster.pod(pod.metadata.uid)
            assert facts is not None
            assert (facts.key, facts.node_name) == (("default", pod.metadata.name), pod.spec.node_name)
            if pod.spec.node_name:
                assert self.cluster.slot_on(pod.metadata.uid, pod.spec.node_name) is not None

    @invariant()
    def placements_are_what_nobody_ended(self) -> None:
        assert {p.uid: (p.node_name, p.assumed) for p in self.cluster.placements} == {
            uid: (placed.node_name, placed.assumed) for uid, placed in self.placed.items()
        }
        assert Counter(self.told_of_drops) <= Counter(self.dropped)

    @invariant()
    def all_is_as_if_it_had_been_told_at_once(self) -> None:
        told = Cluster()
        for node in self.nodes.values():
            told.apply_node(node)
        for pod in self.pods.values():
            told.apply_pod(pod)
        for uid, placed in self.placed.items():
            told.placements.place(placed.pod, uid, placed.node_name).assumed = placed.assumed
        assert portrait(self.cluster) == portrait(told)

    @invariant()
    def nothing_is_kept_of_pods_that_went(self) -> None:
        pods = self.cluster._occupancy.pods
        taken = [*self.pods.values(), *(placed.pod for placed in self.placed.values())]
        assert len(pods) == len(taken)
        assert {ports for _, ports in pods.port_sets} == {ports_of([pod]) for pod in taken}
        distinct = {tuple(sorted(pod.spec.containers[0].resources.requests.items())) for pod in taken}
        assert len(pods.request_sets) == len(distinct)

    def teardown(self) -> None:
        for name in PODS:
            self.cluster.remove_pod(("default", name))
        for uid in self.placed:
            self.cluster.drop_placement(uid)
        for name in NODES:
            self.cluster.remove_node(name)
        table, pods = self.cluster.nodes, self.cluster._occupancy.pods
        assert (self.cluster.pod_count, self.cluster.node_count, len(self.cluster.placements)) == (0, 0, 0)
        assert not table.allocatable.any()
        assert not table.requested.any()
        assert (table.row_of, len(table._free), len(pods)) == ({}, table.size, 0)
        assert [value for _, value in table.taint_sets] == [()]
        assert [value for _, value in table.port_sets] == [frozenset()]
        assert (len(pods.request_sets), len(pods.port_sets), len(table.dimensions.scalars)) == (0, 0, 0)
        assert pods.unoffered_count == 0
        assert all(len(table.label_column(key).values) == 0 for key in LABEL_KEYS)

    # From scratch.

    def pod_of(self, name: str, uid: str, facts: dict, node: str = "", phase: str = "") -> Pod:  # type: ignore[type-arg]
        requests = {resource: str(amount) for resource, amount in facts["amounts"].items()}
        uid = f"{uid} {name}"
        nominated = facts["nominated"]
        pod = make_pod(
            name, node, uid=uid, requests={**requests}, ports=facts["ports"], phase=phase, nominated=nominated
        )
        wishes = {field: facts[field] for field in ("affinity", "volumes", "priority")}
        labelled = structs.replace(pod.metadata, labels=facts["labels"])
        return structs.replace(pod, metadata=labelled, spec=structs.replace(pod.spec, **wishes))

    def is_bound(self, pod: Pod) -> bool:
        known = self.pods.get(pod.metadata.name)
        return known is not None and known.metadata.uid == pod.metadata.uid and known.spec.node_name != ""

    def forget_placement(self, uid: str) -> None:
        if self.placed.pop(uid, None) is not None:
            self.dropped.append(uid)

    def on_node(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == name] + [
            placed.pod for placed in self.placed.values() if placed.node_name == name
        ]

    def check_nodes(self, table: NodeTable, nodes: dict[str, Node]) -> None:
        names = [name for name in (*NODES, "e") if name in nodes or self.on_node(name)]
        assert set(table.row_of) == set(names)
        assert table.count == len(nodes)
        rows = [table.row_of[name] for name in names]
        assert {name: bool(table.exists[row]) for name, row in zip(names, rows, strict=True)} == {
            name: name in nodes for name in names
        }
        assert table.exists.sum() == len(nodes)
        assert len(table._free) == table.size - len(names)

        here = {name: nodes.get(name, Node()) for name in names}
        offered = {name: amounts_of({**node.status.allocatable}) for name, node in here.items()}
        taken = {name: taken_by(self.on_node(name)) for name in names}
        assert np.array_equal(table.allocatable, matrix_of(table, offered))
        assert np.array_equal(table.requested, matrix_of(table, taken))
        offered_now, offered_before = (
            {resource for node in each.values() for resource in node.status.allocatable if "/" in resource}
            for each in (nodes, self.nodes)
        )
        assert {resource for _, resource in table.dimensions.scalars} == offered_now | offered_before

        taints = {name: node.spec.taints for name, node in here.items()}
        ports = {name: ports_of(self.on_node(name)) for name in names}
        for name, row in table.row_of.items():
            assert table.unschedulable[row] == here[name].spec.unschedulable
            assert table.taint_sets.values[int(table.taint_set[row])] == taints[name]
            assert table.port_sets.values[int(table.port_set[row])] == ports[name]
        assert {value for _, value in table.taint_sets} == {(), *taints.values()}
        assert {value for _, value in table.port_sets} == {frozenset(), *ports.values()}
        for key in self.asked_labels:
            self.check_label(table, key, {name: node.metadata.labels.get(key) for name, node in here.items()})

    def check_label(self, table: NodeTable, key: str, values: dict[str, str | None]) -> None:
        column = table.label_column(key)
        found = {name: int(column.numbers[row]) for name, row in table.row_of.items()}
        assert {name: None if n == ABSENT else column.values.values[n] for name, n in found.items()} == values
        assert {value for _, value in column.values} == set(values.values()) - {None}
        assert (column.numbers != ABSENT).sum() == sum(value is not None for value in values.values())


ClusterHistories.TestCase.settings = settings(stateful_step_count=50)
test_any_history = ClusterHistories.TestCase

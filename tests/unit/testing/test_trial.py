import asyncio
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from extender_service.cluster.state.node_info import node_named
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import NEWEST_RULES, rules_of
from extender_service.framework.cluster_event import TARGET_POD, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import PreBind, PreFilter, Reserve
from extender_service.framework.queueing_hints import RetryOnError
from extender_service.framework.registry.reads import ReadsError
from extender_service.framework.status import Rejections, Status, unschedulable
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.kube.types.core import Object, Pod, Taint
from extender_service.kube.types.workloads import Namespace
from extender_service.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from extender_service.plugins.node_unschedulable import NodeUnschedulable
from extender_service.plugins.taint_toleration import TaintToleration
from extender_service.testing import Trial
from extender_service.testing import make_node as simple_node
from extender_service.testing import make_pod as simple_pod
from tests.support.clock import Clock
from tests.support.objects import make_node, make_pod

NODES = [
    make_node("open"),
    make_node("cordoned", unschedulable=True),
    make_node("spot", taints=[Taint("spot", "", "PreferNoSchedule")]),
    make_node("gpu", taints=[Taint("gpu", "yes", "NoSchedule")]),
]


def test_it_tells_who_is_refused_and_why() -> None:
    trial = Trial(NODES, [make_pod("elsewhere", "a-node-that-does-not-exist")])

    refusals = trial.refusals(NodeUnschedulable(None, trial.handle), Pod())

    assert refusals == {"cordoned": "node(s) were unschedulable"}


def test_it_tells_the_scores_of_those_that_are_not_refused() -> None:
    trial = Trial(NODES)
    assert trial.scores(TaintToleration(None, trial.handle), Pod()) == {"open": 100, "cordoned": 100, "spot": 0}


def test_there_are_no_scores_of_a_plugin_that_skips() -> None:
    trial = Trial(NODES)
    assert trial.scores(NodeAffinity(NodeAffinityArgs(), trial.handle), Pod()) == {}


def test_a_plugin_that_fails_is_named() -> None:
    class Broken(NodeUnschedulable):
        def filter(self, state: CycleState, pod: Pod, nodes: object) -> None:
            raise KeyError("disk")

    trial = Trial(NODES)
    with pytest.raises(CycleError, match='running "NodeUnschedulable" filter plugin: KeyError'):
        trial.refusals(Broken(None, trial.handle), Pod())


def test_reads_of_what_the_cluster_does_not_keep_are_refused() -> None:
    class Curious(NodeUnschedulable):
        reads: ClassVar[Any] = frozenset({Taint})

    trial = Trial(NODES)
    with pytest.raises(ReadsError, match=r"it has Taint$"):
        trial.refusals(Curious(None, trial.handle), Pod())


def test_a_plugin_finds_only_kinds_that_it_reads(tmp_path: Path) -> None:
    class ByTeam(NodeUnschedulable):
        """Refuses every node to pods of a team."""

        def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
            labels = self.handle.cluster.workloads.namespace_labels(pod.metadata.namespace)
            return Rejections.where(nodes.exists, unschedulable(labels["team"]))

    class ByTeamThatReads(ByTeam):
        reads: ClassVar[frozenset[type[Object]]] = frozenset({Namespace})

    file = tmp_path / "cluster.yaml"
    file.write_text("---\n{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {team: red}}}\n")
    trial = Trial([simple_node("a")], files=[file])
    for _ in range(2):
        with pytest.raises(CycleError, match="Namespace objects are not watched: name the kind in the plugin's"):
            trial.refusals(ByTeam(None, trial.handle), simple_pod("web"))
        assert trial.refusals(ByTeamThatReads(None, trial.handle), simple_pod("web")) == {"a": "red"}


def test_a_filter_that_takes_every_row_for_a_node_fails() -> None:
    class Unaware(NodeUnschedulable):
        def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
            labels: list[Any] = [node.metadata.labels for node in nodes.objects]  # type: ignore[union-attr]
            return Rejections.where(np.array(["spot" in each for each in labels]), unschedulable("spot"))

    class Aware(NodeUnschedulable):
        def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
            is_spot = [node is not None and node.metadata.name == "spot" for node in nodes.objects]
            return Rejections.where(np.array(is_spot), unschedulable("spot"))

    trial = Trial(NODES)
    with pytest.raises(CycleError, match="AttributeError: 'NoneType' object has no attribute 'metadata'"):
        trial.refusals(Unaware(None, trial.handle), Pod())
    assert trial.refusals(Aware(None, trial.handle), Pod()) == {"spot": "spot"}
    assert (trial.cluster.node_count, trial.cluster.node_names()) == (4, ["open", "cordoned", "spot", "gpu"])


def test_it_binds_as_the_plugin_lets_it() -> None:
    web = make_pod("web")
    agreeing, refusing = Doorkeeper(), Doorkeeper(unschedulable("closed"))
    trial = Trial(NODES, [web])

    with pytest.raises(CycleError, match='running PreBind plugin "Doorkeeper": closed'):
        asyncio.run(trial.bind(refusing, web, "open"))
    assert refusing.calls == ["reserve", "pre_bind", "unreserve"]
    assert trial.cluster.slot_on(web.metadata.uid, "open") is None

    asyncio.run(trial.bind(agreeing, web, "open"))
    assert agreeing.calls == ["reserve", "pre_bind"]
    assert trial.cluster.slot_on(web.metadata.uid, "open") is not None
    assert not len(trial.cluster.placements)


class Licensed(PreFilter, Reserve):
    """Reserves what it has read from the pod in PreFilter."""

    name = "Licensed"

    def __init__(self) -> None:
        super().__init__(None, Trial().handle)
        self.reserved: list[str] = []

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        state[self] = pod.metadata.name
        return unschedulable("no node will do")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.append(f"{state[self]} on {node_name}")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        raise AssertionError("nothing is given back")


def test_a_binding_has_the_state_of_a_decision_whatever_that_says() -> None:
    plugin, web = Licensed(), make_pod("web")
    asyncio.run(Trial(NODES, [web]).bind(plugin, web, "open"))
    assert plugin.reserved == ["web on open"]


class Doorkeeper(Reserve, PreBind):
    """Answers in PreBind as it is told, and notes what it is called for."""

    name = "Doorkeeper"

    def __init__(self, answer: Status | None = None) -> None:
        super().__init__(None, Trial().handle)
        self.calls: list[str] = []
        self._answer = answer

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls.append("reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls.append("unreserve")

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.calls.append("pre_bind")
        return self._answer


def test_a_pod_counts_where_it_is_expected_or_assumed() -> None:
    trial = Trial([simple_node("a"), simple_node("b")])
    web, db = simple_pod("web", {"cpu": "2"}), simple_pod("db", {"cpu": 1})

    trial.expect(web, "a")
    trial.assume(db, "b")

    nodes = trial.cluster.view(None)
    assert nodes.requested(nodes.dimension("cpu"))[nodes.exists].tolist() == [2000, 1000]
    assert [(placement.uid, placement.assumed) for placement in trial.cluster.placements] == [
        ("default/web", False),
        ("default/db", True),
    ]


def test_a_plugin_finds_the_clock_and_the_random_source_of_the_trial() -> None:
    clock, random = Clock(), Random(1)

    async def sleep(seconds: float) -> None:
        clock.pass_seconds(seconds)

    handle = Trial(NODES, clock=clock, sleep=sleep, random=random).handle
    assert (handle.clock, handle.random) == (clock, random)

    async def wait() -> None:
        await handle.sleep(5)

    asyncio.run(wait())
    assert handle.clock() == 1005
    assert not handle.simulated


def test_time_passes_as_the_clock_of_the_trial_says() -> None:
    class Opens(NodeUnschedulable):
        """Refuses every node until the second 2000."""

        def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
            return Rejections.where(nodes.exists, unschedulable("too early")) if self.handle.clock() < 2000 else None

    clock = Clock()
    trial = Trial(NODES, clock=clock)
    plugin = Opens(None, trial.handle)
    assert len(trial.refusals(plugin, Pod())) == len(NODES)
    clock.pass_seconds(1000)
    assert trial.refusals(plugin, Pod()) == {}


def test_a_trial_follows_the_release_that_it_is_given() -> None:
    newest, older = Trial(NODES), Trial(NODES, release="1.34")
    assert newest.handle.rules == NEWEST_RULES
    assert older.handle.rules == rules_of(34)

    plugin = NodeUnschedulable(None, older.handle)
    plugin.retry_on = (ClusterEvent(TARGET_POD, ActionType.UPDATE),)
    assert newest.refusals(plugin, Pod()) == {"cordoned": "node(s) were unschedulable"}
    with pytest.raises(RetryOnError, match=r"no event before 1\.37 is about TargetPod, and 1\.34 is followed"):
        older.refusals(plugin, Pod())
    with pytest.raises(ValueError, match=r"'newest' is not a version"):
        Trial(release="newest")


def test_builders_make_nodes_and_pods() -> None:
    node = simple_node("a", {"cpu": 4, "nvidia.com/gpu": "8"}, labels={"zone": "z"})
    pod = simple_pod(
        "web", {"cpu": "500m"}, namespace="shop", labels={"app": "web"}, annotations={"note": "x"}, node_name="a"
    )
    trial = Trial([node], [pod])
    info = node_named(trial.cluster, "a")
    assert info is not None
    assert (info.free("cpu"), info.free("nvidia.com/gpu"), info.pod_count) == (3500, 8, 1)
    assert info.labels == {"zone": "z"}
    facts = trial.cluster.pod("shop/web")
    assert facts is not None
    assert (facts.namespace, facts.name, facts.node_name) == ("shop", "web", "a")
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"app": "web"}, {"note": "x"})


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ({"nodes": [make_node("a"), make_pod("web")]}, "nodes contains a Pod"),
        ({"nodes": [make_node("a")], "pods": [make_node("b")]}, "pods contains a Node"),
        ({"nodes": make_node("a")}, "nodes is a Node"),
        ({"pods": {"default/web": make_pod("web")}}, "pods is a dict"),
        ({"files": "cluster.yaml"}, "files is a str"),
        ({"files": ["cluster.yaml"]}, "files contains a str"),
    ],
)
def test_arguments_that_are_mixed_up_are_named(arguments: dict[str, Any], mistake: str) -> None:
    with pytest.raises(TypeError, match=f"^Trial takes a list of nodes, .*; {mistake}$"):
        Trial(**arguments)


def test_serving_does_not_load_what_is_for_tests() -> None:
    load = "from extender_service.command import cli; from extender_service.command.serve import serve"
    program = f"{load}; import sys; print('extender_service.testing' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


def test_the_cluster_and_the_pods_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "---\n{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: true}}\n"
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: web}}\n"
    )

    trial = Trial(files=[file])

    refusals = trial.refusals(NodeUnschedulable(None, trial.handle), trial.pods["default/web"])
    assert refusals == {"a": "node(s) were unschedulable"}
    with pytest.raises(ManifestError):
        Trial(files=[tmp_path / "missing.yaml"])

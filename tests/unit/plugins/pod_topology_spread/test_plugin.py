from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP
from extender_service.kube.parsing.selectors import EVERYTHING, parse_label_selector
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from extender_service.kube.types.workloads import Service, ServiceSpec
from extender_service.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from extender_service.plugins.pod_topology_spread.constraints import own_constraints
from extender_service.plugins.pod_topology_spread.plugin import NO_LABEL, NO_MATCH, PodTopologySpread
from tests.counted.bytecodes import executed
from tests.support.clusters.hypothetical_worlds import (
    NAMESPACES,
    HypotheticalWorld,
    hypothetical_node,
    hypothetical_pod,
    hypothetical_worlds,
    reasons,
)
from tests.support.memory import MIB, kept_bytes

WEB = LabelSelector({"app": "web"})
DB = LabelSelector({"app": "db"})
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
SYSTEM_ZONE = "topology.kubernetes.io/zone"


def plugin_for(cluster: Cluster, args: PodTopologySpreadArgs | None = None) -> PodTopologySpread:
    return PodTopologySpread(args or PodTopologySpreadArgs(), Handle(cluster, ClusterFile(cluster, [])))


def constrained(*constraints: TopologySpreadConstraint, labels: dict[str, str] | None = None) -> Pod:
    pod = hypothetical_pod("new", labels={"app": "web"} if labels is None else labels)
    return structs.replace(pod, spec=structs.replace(pod.spec, topology_spread_constraints=constraints))


def two_zones(rules: Rules = DEFAULT_RULES) -> Cluster:
    """Zone x with two pods, zone y with one on its first node, and a node without a zone."""
    cluster = Cluster(rules)
    for name, zone in (("x-1", "x"), ("y-1", "y"), ("y-2", "y")):
        cluster.apply_node(hypothetical_node(name, zone=zone))
    cluster.apply_node(hypothetical_node("nowhere"))
    for name, node in (("web-1", "x-1"), ("web-2", "x-1"), ("web-3", "y-1")):
        cluster.apply_pod(hypothetical_pod(name, node, labels={"app": "web"}))
    return cluster


def rejected(cluster: Cluster, pod: Pod) -> list[str | None]:
    plugin, state, nodes = plugin_for(cluster), CycleState(pod), cluster.view(None)
    assert plugin.pre_filter(state, pod) is None
    return reasons(plugin.filter(state, pod, nodes), nodes)


def scored(cluster: Cluster, pod: Pod, args: PodTopologySpreadArgs | None = None) -> list[int]:
    plugin, state, nodes = plugin_for(cluster, args), CycleState(pod), cluster.view(None)
    assert plugin.pre_score(state, pod, nodes) is None
    scores: list[int] = plugin.normalize(state, pod, nodes, plugin.score(state, pod, nodes)).tolist()
    return scores


def test_a_zone_that_is_ahead_takes_no_more_pods() -> None:
    constraint = TopologySpreadConstraint(1, "zone", HARD, WEB)
    assert rejected(two_zones(), constrained(constraint)) == [NO_MATCH.message, None, None, NO_LABEL.message]
    wider = structs.replace(constraint, max_skew=2)
    assert rejected(two_zones(), constrained(wider)) == [None, None, None, NO_LABEL.message]


@pytest.mark.parametrize(("minor", "in_x"), [(32, None), (33, NO_MATCH.message)])
def test_constraints_with_the_same_key_count_each_on_its_own_from_1_33_on(minor: int, in_x: str | None) -> None:
    # Before, the count of the last one stands for both: no pod is a database.
    constraints = [TopologySpreadConstraint(1, "zone", HARD, WEB), TopologySpreadConstraint(1, "zone", HARD, DB)]
    found = rejected(two_zones(rules_of(minor)), constrained(*constraints))
    assert found == [in_x, None, None, NO_LABEL.message]


@pytest.mark.parametrize(("minor", "expected"), [(32, [60, 100, 100, 0]), (33, [50, 100, 100, 0])])
def test_preferred_constraints_with_the_same_key_score_each_on_its_own_from_1_33_on(
    minor: int, expected: list[int]
) -> None:
    cluster = two_zones(rules_of(minor))
    constraints = [TopologySpreadConstraint(1, "zone", SOFT, WEB), TopologySpreadConstraint(2, "zone", SOFT, DB)]
    assert scored(cluster, constrained(*constraints)) == expected


def test_too_few_zones_count_as_if_there_were_an_empty_one() -> None:
    constraint = TopologySpreadConstraint(2, "zone", HARD, WEB, min_domains=3)
    assert rejected(two_zones(), constrained(constraint)) == [NO_MATCH.message, None, None, NO_LABEL.message]


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    cluster = two_zones()
    cluster.apply_pod(hypothetical_pod("web-2", "x-1", labels={"app": "web"}, deleted=True))
    constraint = TopologySpreadConstraint(1, "zone", HARD, WEB)
    assert rejected(cluster, constrained(constraint)) == [None, None, None, NO_LABEL.message]


def test_nodes_that_the_pod_cannot_go_to_do_not_count() -> None:
    cluster = two_zones()
    cluster.apply_node(
        structs.replace(
            hypothetical_node("z-1", zone="z"),
            spec=structs.replace(Node().spec, taints=(Taint("no", "", "NoSchedule"),)),
        )
    )
    ignoring = TopologySpreadConstraint(1, "zone", HARD, WEB)
    honoring = structs.replace(ignoring, node_taints_policy="Honor")
    full, left = NO_MATCH.message, NO_LABEL.message
    assert rejected(cluster, constrained(ignoring)) == [full, full, full, left, None]
    assert rejected(cluster, constrained(honoring))[1:3] == [None, None]
    tolerating = constrained(honoring)
    tolerating = structs.replace(
        tolerating, spec=structs.replace(tolerating.spec, tolerations=(Toleration("no", "Exists"),))
    )
    assert rejected(cluster, tolerating)[1:3] == [full, full]
    selecting = constrained(ignoring)
    selecting = structs.replace(selecting, spec=structs.replace(selecting.spec, node_selector={"zone": "x"}))
    assert rejected(cluster, selecting)[:1] == [None]


def test_labels_named_by_key_are_taken_from_the_pod() -> None:
    cluster = two_zones()
    constraint = TopologySpreadConstraint(1, "zone", HARD, WEB, match_label_keys=("version", "absent"))
    newer = constrained(constraint, labels={"app": "web", "version": "2"})
    assert rejected(cluster, newer) == [None, None, None, NO_LABEL.message]


def test_a_constraint_without_any_eligible_topology_rejects_only_for_the_missing_label() -> None:
    cluster = two_zones()
    pod = constrained(TopologySpreadConstraint(1, "zone", HARD, WEB))
    pod = structs.replace(pod, spec=structs.replace(pod.spec, node_selector={"disk": "ssd"}))
    assert rejected(cluster, pod) == [None, None, None, NO_LABEL.message]


def test_there_is_nothing_to_filter_or_score_without_constraints() -> None:
    cluster = two_zones()
    plugin, pod = plugin_for(cluster), hypothetical_pod("new", labels={"app": "web"})
    assert plugin.pre_filter(CycleState(pod), pod) == SKIP
    assert plugin.pre_score(CycleState(pod), pod, cluster.view(None)) == SKIP


def test_a_malformed_selector_ends_the_cycle() -> None:
    cluster = two_zones()
    broken = LabelSelector(match_expressions=(SelectorRequirement("app", "Near"),))
    hard, soft = (constrained(TopologySpreadConstraint(1, "zone", when, broken)) for when in (HARD, SOFT))
    plugin = plugin_for(cluster)
    with pytest.raises(PluginError, match=r"get constraints from pod: obtaining pod's hard .* constraints: .*Near"):
        plugin.pre_filter(CycleState(hard), hard)
    assert plugin.pre_filter(CycleState(soft), soft) == SKIP
    with pytest.raises(PluginError, match=r"calculating preScoreState: obtaining pod's soft .* constraints: .*Near"):
        plugin.pre_score(CycleState(soft), soft, cluster.view(None))


def test_without_pre_filter_there_is_an_error() -> None:
    cluster, pod = two_zones(), hypothetical_pod("new")
    with pytest.raises(PluginError, match='reading "PreFilterPodTopologySpread" from cycleState: not found'):
        plugin_for(cluster).filter(CycleState(pod), pod, cluster.view(None))


def test_emptier_zones_score_higher_and_nodes_without_one_score_nothing() -> None:
    assert scored(two_zones(), constrained(TopologySpreadConstraint(1, "zone", SOFT, WEB))) == [33, 100, 100, 0]


def test_a_service_spreads_its_pods_over_hosts_and_zones() -> None:
    cluster = Cluster()
    for name, labels in (("a", {SYSTEM_ZONE: "x"}), ("b", {SYSTEM_ZONE: "y"}), ("c", {})):
        cluster.apply_node(hypothetical_node(name, **{HOSTNAME: name, **labels}))
    cluster.workloads.apply(Service(hypothetical_pod("web").metadata, ServiceSpec({"app": "web"})))
    cluster.apply_pod(hypothetical_pod("web-1", "a", labels={"app": "web"}))
    pod = hypothetical_pod("new", labels={"app": "web"})
    scores = scored(cluster, pod)
    assert scores[0] < scores[1] < scores[2]


def test_configured_default_constraints_take_the_place_of_the_systems() -> None:
    cluster = two_zones()
    cluster.workloads.apply(Service(hypothetical_pod("web").metadata, ServiceSpec({"app": "web"})))
    constraint = TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable=HARD)
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(constraint,))
    plugin, pod, nodes = plugin_for(cluster, args), hypothetical_pod("new", labels={"app": "web"}), cluster.view(None)
    state = CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    assert reasons(plugin.filter(state, pod, nodes), nodes) == [NO_MATCH.message, None, None, NO_LABEL.message]
    assert plugin.pre_score(state, pod, nodes) == SKIP
    unowned = hypothetical_pod("other", labels={"app": "other"})
    assert plugin.pre_filter(CycleState(unowned), unowned) == SKIP


# What kube-scheduler does on one node, step by step (podtopologyspread/filtering.go).


def expected_reason(world: HypotheticalWorld, pod: Pod, node: int) -> str | None:
    counts, domains = counts_of(world, pod, node)
    labels = world.nodes[node].metadata.labels
    for constraint in pod.spec.topology_spread_constraints:
        key = constraint.topology_key
        if key not in labels:
            return NO_LABEL.message
        if not domains.get(key):
            continue
        least = 0 if domains[key] < (constraint.min_domains or 1) else min(counts[key].values())
        itself = is_selected(constraint, pod, pod)
        if counts[key].get(labels[key], 0) + itself - least > constraint.max_skew:
            return NO_MATCH.message
    return None


def counts_of(world: HypotheticalWorld, pod: Pod, node: int) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Pods by key and value in the world of a node, and how many topologies each key has."""
    constraints = pod.spec.topology_spread_constraints
    keys = {constraint.topology_key for constraint in constraints}
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for number, item in enumerate(world.nodes):
        if not keys <= item.metadata.labels.keys():
            continue
        for constraint in constraints:
            of_key, value = counts[constraint.topology_key], item.metadata.labels[constraint.topology_key]
            of_key[value] = of_key.get(value, 0) + sum(
                not other.metadata.deletion_timestamp and is_selected(constraint, other, pod)
                for other in world.pods_on(number)
                if parse_label_selector(constraint.label_selector) != EVERYTHING
            )
    domains = {key: len(of_key) for key, of_key in counts.items()}
    labels = world.nodes[node].metadata.labels
    for change in world.changes:
        if change.node == node and keys <= labels.keys():
            for constraint in constraints:
                if is_selected(constraint, world.pods[change.pod], pod):
                    counts[constraint.topology_key][labels[constraint.topology_key]] += change.sign
    return counts, domains


def is_selected(constraint: TopologySpreadConstraint, other: Pod, pod: Pod) -> bool:
    matches = parse_label_selector(constraint.label_selector).matches(other.metadata.labels)
    return matches and other.metadata.namespace == pod.metadata.namespace


selectors = st.sampled_from([None, LabelSelector(), WEB, LabelSelector({"app": "db"})])
pods = st.builds(
    lambda namespace, app, deleted: hypothetical_pod("", namespace=namespace, labels={"app": app}, deleted=deleted),
    st.sampled_from(NAMESPACES),
    st.sampled_from(["web", "db"]),
    st.booleans(),
)
constraints = st.lists(
    st.builds(
        TopologySpreadConstraint,
        st.integers(1, 2),
        st.sampled_from(["zone", "host"]),
        st.just(HARD),
        selectors,
        st.sampled_from([None, 1, 2, 3]),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda constraint: constraint.topology_key,
)


@given(hypothetical_worlds(pods), constraints, st.sampled_from(["web", "db"]))
def test_each_node_is_judged_in_its_own_world(
    world: HypotheticalWorld, wanted: list[TopologySpreadConstraint], app: str
) -> None:
    pod = constrained(*wanted, labels={"app": app})
    cluster, nodes = world.view()
    plugin, state = plugin_for(cluster), CycleState(pod)
    assert plugin.pre_filter(state, pod) is None
    expected = [expected_reason(world, pod, number) for number in range(len(world.nodes))]
    assert reasons(plugin.filter(state, pod, nodes), nodes) == expected
    backwards = nodes.at(np.arange(len(nodes))[::-1])
    assert reasons(plugin.filter(state, pod, backwards), backwards) == expected[::-1]
    unchanged = cluster.view(None)
    as_it_is = world._replace(changes=[])
    assert reasons(plugin.filter(state, pod, unchanged), unchanged) == [
        expected_reason(as_it_is, pod, number) for number in range(len(world.nodes))
    ]


@pytest.mark.parametrize("action", [HARD, SOFT])
def test_constraints_of_many_topologies_are_not_compared_with_each_other(action: str) -> None:
    """Also where they look at taints."""

    def judging(constraints: int) -> int:
        cluster = Cluster()
        for name in ("a", "b"):
            cluster.apply_node(hypothetical_node(name, zone=name))
        cluster.apply_pod(hypothetical_pod("web", "a", labels={"app": "web"}))
        plugin, view = plugin_for(cluster), cluster.view(None)
        keys = ["zone", *[f"key-{number}" for number in range(constraints)]]
        pod = constrained(*[TopologySpreadConstraint(1, key, action, WEB, node_taints_policy="Honor") for key in keys])
        pod = structs.replace(pod, spec=structs.replace(pod.spec, tolerations=(Toleration("a"),) * constraints))

        def judge() -> None:
            state = CycleState(pod)
            if action == HARD:
                assert plugin.pre_filter(state, pod) is None
                assert reasons(plugin.filter(state, pod, view), view) == [NO_LABEL.message] * 2
            else:
                assert plugin.pre_score(state, pod, view) is None
                assert not plugin.score(state, pod, view).any()

        judge()
        return executed(judge)

    assert judging(800) < 3 * judging(400)


def test_of_pods_with_many_labels_nothing_is_kept() -> None:
    cluster = two_zones()
    plugin = plugin_for(cluster)
    rule = TopologySpreadConstraint(1, "zone", HARD, WEB, match_label_keys=("version",))

    def ask() -> None:
        for number in range(15):
            labels = {f"label-{number}-{index}": f"value-{number}-{index}" for index in range(4000)}
            pod = constrained(rule, labels=labels | {"app": "web", "version": "1"})
            assert plugin.pre_filter(CycleState(pod), pod) is None

    assert kept_bytes(ask) < 5 * MIB  # single texts are kept for other pods that have them


def test_only_labels_that_a_constraint_names_tell_constraints_apart() -> None:
    rule = TopologySpreadConstraint(1, "zone", HARD, WEB, match_label_keys=("version",))
    first, again, other = (
        own_constraints(LabelSet("shop", {"app": "web", "version": version, "pod": pod}), (rule,), HARD)
        for version, pod in (("1", "a"), ("1", "b"), ("2", "a"))
    )
    assert first is again
    assert [parsed.each[0].selector.matches({"app": "web", "version": "2"}) for parsed in (first, other)] == [
        False,
        True,
    ]


def zones_whose_numbers_change() -> Cluster:
    """Nodes whose zones are numbered in another way once the column of zones was forgotten and made again."""
    cluster = Cluster()
    others = {f"key-{number}": "" for number in range(300)}
    for name, zone in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "1"), ("d", "")):
        cluster.apply_node(hypothetical_node(name, zone=zone, **others))
        cluster.view(None).label("zone")
    cluster.apply_node(hypothetical_node("nowhere"))
    for name, node in (("web-1", "b"), ("web-2", "b"), ("web-3", "c")):
        cluster.apply_pod(hypothetical_pod(name, node, labels={"app": "web"}))
    return cluster


@pytest.mark.parametrize("other_keys", [0, 30, 300])
def test_any_number_of_other_labels_between_two_uses_changes_nothing(other_keys: int) -> None:
    cluster = zones_whose_numbers_change()
    hard = constrained(TopologySpreadConstraint(1, "zone", HARD, WEB))
    in_two_zones = NodeSelectorTerm((SelectorRequirement("zone", "In", ("1", "2")),))
    affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector((in_two_zones,))))
    hard = structs.replace(hard, spec=structs.replace(hard.spec, affinity=affinity))
    soft = constrained(TopologySpreadConstraint(1, "zone", SOFT, WEB))
    first = rejected(cluster, hard), scored(cluster, soft)
    for number in range(other_keys):
        cluster.view(None).label(f"other-{number}")
    for number in range(300):
        cluster.nodes.label_column(f"key-{number}")
    # Whatever is forgotten first.
    cluster.memory.memo().forget((NodeView._label, ("zone",)))
    assert (rejected(cluster, hard), scored(cluster, soft)) == first


def test_taints_that_are_honoured_are_compared_behind_a_gate() -> None:
    constraint = TopologySpreadConstraint(1, "zone", HARD, WEB, node_taints_policy="Honor")
    pod = constrained(constraint)
    pod = structs.replace(pod, spec=structs.replace(pod.spec, tolerations=(Toleration("sla", "Gt", "950"),)))
    found = []
    for is_on in (False, True):
        cluster = two_zones(rules_of(37, {"TaintTolerationComparisonOperators": is_on}))
        taint = Taint("sla", "999", "NoSchedule")
        cluster.apply_node(
            structs.replace(hypothetical_node("z-1", zone="z"), spec=structs.replace(Node().spec, taints=(taint,)))
        )
        found.append(rejected(cluster, pod))
    assert found == [
        [NO_MATCH.message, None, None, NO_LABEL.message, None],
        [NO_MATCH.message, NO_MATCH.message, NO_MATCH.message, NO_LABEL.message, None],
    ]

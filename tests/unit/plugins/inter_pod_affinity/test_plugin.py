from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code, Rejections, Status
from extender_service.kube.parsing.pod_affinity import AffinityTerm, pod_affinity_terms
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    WeightedPodAffinityTerm,
)
from extender_service.kube.types.workloads import Namespace
from extender_service.plugins.inter_pod_affinity.args import InterPodAffinityArgs
from extender_service.plugins.inter_pod_affinity.plugin import NOT_APART, NOT_NEAR, UNWANTED, InterPodAffinity
from extender_service.plugins.inter_pod_affinity.scoring import points_of
from tests.counted.bytecodes import executed
from tests.support.clusters.hypothetical_worlds import (
    NAMESPACES,
    HypotheticalWorld,
    hypothetical_node,
    hypothetical_pod,
    hypothetical_worlds,
    reasons,
)
from tests.support.memory import MIB, peak_bytes

WEB = PodAffinityTerm("zone", LabelSelector({"app": "web"}))
DB = PodAffinityTerm("zone", LabelSelector({"app": "db"}))


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required=terms))


def apart(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=PodAffinity(required=terms))


def prefers(weight: int, term: PodAffinityTerm) -> Affinity:
    preferred = PodAffinity(preferred=(WeightedPodAffinityTerm(abs(weight), term),))
    return Affinity(pod_affinity=preferred) if weight > 0 else Affinity(pod_anti_affinity=preferred)


@pytest.fixture(autouse=True)
def few_nodes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at topologies instead of nodes, as in large clusters."""
    monkeypatch.setattr("extender_service.plugins.shared.topology.MANY_NODES", 12)


@pytest.fixture
def cluster() -> Cluster:
    """Zones x and y of one node each, a node without a zone, and a pod web in zone x."""
    cluster = Cluster()
    for name, labels in (("x", {"zone": "x"}), ("y", {"zone": "y"}), ("nowhere", {})):
        cluster.apply_node(hypothetical_node(name, **labels))
    cluster.apply_pod(hypothetical_pod("web", "x", labels={"app": "web"}))
    cluster.apply_pod(hypothetical_pod("web-too", "nowhere", labels={"app": "web"}))
    return cluster


def plugin_for(cluster: Cluster, args: InterPodAffinityArgs | None = None) -> InterPodAffinity:
    return InterPodAffinity(args or InterPodAffinityArgs(), Handle(cluster, ClusterFile(cluster, [])))


def filtered(cluster: Cluster, pod: Pod) -> list[str | None] | Status:
    plugin, state, nodes = plugin_for(cluster), CycleState(pod), cluster.view(None)
    status = plugin.pre_filter(state, pod)
    return reasons(plugin.filter(state, pod, nodes), nodes) if status is None else status


def scored(cluster: Cluster, pod: Pod, args: InterPodAffinityArgs | None = None) -> list[int] | Status:
    plugin, state, nodes = plugin_for(cluster, args), CycleState(pod), cluster.view(None)
    status = plugin.pre_score(state, pod, nodes)
    if status is not None:
        return status
    scores: list[int] = plugin.normalize(state, pod, nodes, plugin.score(state, pod, nodes)).tolist()
    return scores


def test_a_pod_goes_where_the_pods_that_it_needs_are(cluster: Cluster) -> None:
    assert filtered(cluster, hypothetical_pod("new", affinity=near(WEB))) == [None, NOT_NEAR.message, NOT_NEAR.message]


def test_one_pod_must_match_all_terms(cluster: Cluster) -> None:
    cluster.apply_pod(hypothetical_pod("db", "x", labels={"app": "db"}))
    assert filtered(cluster, hypothetical_pod("new", affinity=near(WEB, DB))) == [NOT_NEAR.message] * 3


def test_the_first_of_a_group_may_go_anywhere_in_the_topology(cluster: Cluster) -> None:
    first = hypothetical_pod("new", labels={"app": "db"}, affinity=near(DB))
    assert filtered(cluster, first) == [None, None, NOT_NEAR.message]
    other = hypothetical_pod("new", labels={"app": "other"}, affinity=near(DB))
    assert filtered(cluster, other) == [NOT_NEAR.message] * 3
    cluster.apply_pod(hypothetical_pod("db", "y", labels={"app": "db"}))
    assert filtered(cluster, first) == [NOT_NEAR.message, None, NOT_NEAR.message]


def test_a_pod_stays_away_from_pods_that_it_cannot_stand(cluster: Cluster) -> None:
    assert filtered(cluster, hypothetical_pod("new", affinity=apart(WEB))) == [NOT_APART.message, None, None]


def test_a_pod_stays_away_from_pods_that_cannot_stand_it(cluster: Cluster) -> None:
    cluster.apply_pod(hypothetical_pod("shy", "y", affinity=apart(DB)))
    cluster.apply_pod(hypothetical_pod("shy-too", "nowhere", affinity=apart(DB)))
    assert filtered(cluster, hypothetical_pod("new", labels={"app": "db"})) == [None, UNWANTED.message, None]
    assert filtered(cluster, hypothetical_pod("new", labels={"app": "other"})) == SKIP
    cluster.remove_pod(("shop", "shy"))
    assert filtered(cluster, hypothetical_pod("new", labels={"app": "db"})) == SKIP


def test_namespaces_are_selected_by_their_labels(cluster: Cluster) -> None:
    cluster.apply_pod(hypothetical_pod("elsewhere", "y", namespace="bank", labels={"app": "web"}))
    cluster.workloads.apply(Namespace(ObjectMeta(name="bank", labels={"team": "money"})))
    money = PodAffinityTerm("zone", WEB.label_selector, namespace_selector=LabelSelector({"team": "money"}))
    anywhere = PodAffinityTerm("zone", WEB.label_selector, namespace_selector=LabelSelector())
    assert filtered(cluster, hypothetical_pod("new", affinity=near(money))) == [
        NOT_NEAR.message,
        None,
        NOT_NEAR.message,
    ]
    assert filtered(cluster, hypothetical_pod("new", affinity=near(anywhere))) == [None, None, NOT_NEAR.message]
    cluster.apply_pod(hypothetical_pod("shy", "x", affinity=apart(money)))
    assert filtered(cluster, hypothetical_pod("new", namespace="bank", labels={"app": "web"})) == [
        UNWANTED.message,
        None,
        None,
    ]


def test_a_term_of_anti_affinity_may_be_given_twice(cluster: Cluster) -> None:
    pod = hypothetical_pod("new", affinity=apart(WEB, WEB, DB))
    assert filtered(cluster, pod) == [NOT_APART.message, None, None]


def test_thousands_of_terms_of_anti_affinity_take_the_memory_of_a_few() -> None:
    cluster = Cluster()
    for number in range(1_000):
        cluster.apply_node(hypothetical_node(f"node-{number}", zone=str(number)))
    cluster.apply_pod(hypothetical_pod("web", "node-1", labels={"app": "web"}))
    terms = [PodAffinityTerm("zone", LabelSelector({"app": f"app-{number}"})) for number in range(1_000)]
    cluster.pod_counts.most_entries = 10
    pods = [
        hypothetical_pod("new", affinity=apart(*[WEB] * 1_000)),
        hypothetical_pod("new", affinity=apart(WEB, *terms)),
    ]
    for pod in pods:
        assert peak_bytes(partial(filtered, cluster, pod)) < 5 * MIB


def test_the_pods_of_many_terms_are_counted_once_for_all_topologies() -> None:
    def filtering(keys: int) -> int:
        cluster = Cluster()
        cluster.apply_node(hypothetical_node("a", zone="x"))
        # Too much to be kept.
        others = SelectorRequirement("pod", "NotIn", tuple(map(str, range(300))))
        terms = [
            PodAffinityTerm(f"key-{number}", LabelSelector({"app": f"app-{number}"}, (others,)))
            for number in range(keys)
        ]
        pod = hypothetical_pod("new", affinity=near(*terms))
        assert filtered(cluster, pod) == [NOT_NEAR.message]
        return executed(lambda: filtered(cluster, pod))

    assert filtering(400) < 3 * filtering(200)


def test_a_malformed_term_rejects_the_pod(cluster: Cluster) -> None:
    broken = PodAffinityTerm("zone", LabelSelector(match_expressions=(SelectorRequirement("app", "Near"),)))
    pod = hypothetical_pod("new", affinity=near(broken))
    status = filtered(cluster, pod)
    assert isinstance(status, Status)
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == 'parsing pod: requiredAffinityTerms: "Near" is not a valid label selector operator'
    with pytest.raises(PluginError, match="failed to parse pod: requiredAffinityTerms"):
        scored(cluster, pod)


def test_preferences_of_the_pod_are_scored(cluster: Cluster) -> None:
    assert scored(cluster, hypothetical_pod("new", affinity=prefers(10, WEB))) == [100, 0, 0]
    assert scored(cluster, hypothetical_pod("new", affinity=prefers(-10, WEB))) == [0, 100, 100]
    assert scored(cluster, hypothetical_pod("new", affinity=prefers(10, DB))) == SKIP


def test_preferences_and_requirements_of_running_pods_are_scored(cluster: Cluster) -> None:
    cluster.apply_pod(hypothetical_pod("needs-db", "x", affinity=near(DB)))
    cluster.apply_pod(hypothetical_pod("likes-db", "y", affinity=prefers(5, DB)))
    db = hypothetical_pod("new", labels={"app": "db"})
    assert scored(cluster, db) == [20, 100, 0]
    assert scored(cluster, db, InterPodAffinityArgs(hard_pod_affinity_weight=0)) == [0, 100, 0]
    ignoring = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    assert scored(cluster, db, ignoring) == SKIP
    own = hypothetical_pod("new", labels={"app": "db"}, affinity=prefers(10, WEB))
    assert scored(cluster, own, ignoring) == [100, 45, 0]


@pytest.mark.parametrize("other_keys", [0, 30, 300])
def test_any_number_of_other_labels_between_two_uses_changes_nothing(other_keys: int) -> None:
    cluster = Cluster()
    others = {f"key-{number}": "" for number in range(300)}
    # The column of zones numbers them in another way once it was forgotten and made again.
    for name, zone in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "1")):
        cluster.apply_node(hypothetical_node(name, zone=zone, **others))
        cluster.view(None).label("zone")
    cluster.apply_pod(hypothetical_pod("db", "c", labels={"app": "db"}, affinity=prefers(100, WEB)))
    pod, plugin = hypothetical_pod("new", labels={"app": "web"}), plugin_for(cluster)

    def scores(nodes: NodeView) -> list[int]:
        state = CycleState(pod)
        assert plugin.pre_score(state, pod, nodes) is None
        return plugin.normalize(state, pod, nodes, plugin.score(state, pod, nodes)).tolist()  # type: ignore[no-any-return]

    assert scores(cluster.view(None)) == [0, 0, 100]
    for number in range(other_keys):
        cluster.view(None).label(f"other-{number}")
    for number in range(300):
        cluster.nodes.label_column(f"key-{number}")
    # Whatever is forgotten first.
    cluster.memory.memo().forget((NodeView._label, ("zone",)))
    assert scores(cluster.view(np.array([1, 2, 0]))) == [0, 100, 0]


def test_weights_that_cancel_out_still_score(cluster: Cluster) -> None:
    cluster.apply_pod(hypothetical_pod("likes-db", "x", affinity=prefers(5, DB)))
    cluster.apply_pod(hypothetical_pod("dislikes-db", "x", affinity=prefers(-5, DB)))
    assert scored(cluster, hypothetical_pod("new", labels={"app": "db"})) == [0, 0, 0]


ZONED = [WEB, DB, PodAffinityTerm("host", LabelSelector({"app": "web"}))]
KINDS = [
    *(near(*terms) for terms in ([WEB], [DB], [WEB, DB], ZONED)),
    *(apart(*terms) for terms in ([WEB], [DB], [WEB, DB], ZONED[2:])),
    Affinity(pod_affinity=near(WEB).pod_affinity, pod_anti_affinity=apart(DB).pod_anti_affinity),
    prefers(3, WEB),
    prefers(-2, DB),
    None,
]


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 29), st.sampled_from(["web", "db"]), st.sampled_from(KINDS)),
        min_size=4,
        max_size=25,
    ),
    hosts=st.booleans(),
)
def test_what_is_known_from_the_decision_before_is_what_would_be_computed_again(
    steps: list[tuple[int, int, str, Affinity | None]], hosts: bool
) -> None:
    cluster = Cluster()
    plugin = plugin_for(cluster)
    for number in range(30):
        more = {"host": f"n{number}"} if hosts else {}
        cluster.apply_node(hypothetical_node(f"n{number}", zone=f"z{number % 3}", **more))
    for number, (what, at, app, affinity) in enumerate(steps):
        if what == 0:
            cluster.apply_node(hypothetical_node(f"n{at}", **({"zone": f"z{at % 4}"} if at % 5 else {})))
        elif what == 1:
            cluster.remove_pod(("default", f"running-{at % max(number, 1)}"))
        else:
            cluster.apply_pod(hypothetical_pod(f"running-{number}", f"n{at}", labels={"app": app}, affinity=affinity))
        pod = hypothetical_pod("new", labels={"app": app}, affinity=steps[0][3])
        for nodes in (cluster.view(None), cluster.view(None).at(np.arange(at, 30))):
            state = CycleState(pod)
            if plugin.pre_filter(state, pod) is None:
                required = state["PreFilterInterPodAffinity"]
                checks = (required.not_near(nodes), required.not_apart(nodes), required.unwanted(nodes))
                keys = np.zeros(len(nodes), np.int64)
                expected = [check for check in checks if check is not None]
                for key, rejected in reversed(list(enumerate(expected, 1))):
                    keys[rejected] = key
                found = plugin.filter(state, pod, nodes)
                assert (np.zeros(len(nodes), np.int64) if found is None else found.keys).tolist() == keys.tolist()
            if plugin.pre_score(state, pod, nodes) is None:
                scores = plugin.score(state, pod, nodes)
                scores_again = state["PreScoreInterPodAffinity"].scores(nodes)
                assert scores.tolist() == scores_again.tolist()
                points = plugin.normalize(state, pod, nodes, scores)
                assert points.tolist() == points_of(scores_again).tolist()


def test_rejections_in_the_same_zones_are_the_very_same(cluster: Cluster) -> None:
    for number in range(30):
        cluster.apply_node(hypothetical_node(f"more-{number}", zone="x"))
    pod, nodes = hypothetical_pod("new", affinity=near(WEB)), cluster.view(None)

    def rejections() -> Rejections | None:
        plugin, state = plugin_for(cluster), CycleState(pod)
        assert plugin.pre_filter(state, pod) is None
        return plugin.filter(state, pod, nodes)

    before = rejections()
    cluster.apply_pod(hypothetical_pod("more", "x", labels={"app": "web"}))
    assert rejections() is before
    cluster.apply_pod(hypothetical_pod("elsewhere", "y", labels={"app": "web"}))
    assert rejections() is not before


# What kube-scheduler does on one node, step by step (interpodaffinity/filtering.go).

Pair = tuple[str, str]


def expected_reason(world: HypotheticalWorld, pod: Pod, node: int) -> str | None:
    existing, wanted, unwanted = counts_of(world, pod, node)
    terms = pod_affinity_terms("shop", pod.spec.affinity)
    labels = world.nodes[node].metadata.labels
    if terms.required:
        if any(term.topology_key not in labels for term in terms.required):
            return NOT_NEAR.message
        is_near = all(wanted[term.topology_key, labels[term.topology_key]] > 0 for term in terms.required)
        if not is_near and (+wanted or not all(about(term, pod) for term in terms.required)):
            return NOT_NEAR.message
    for term in terms.required_anti:
        if term.topology_key in labels and unwanted[term.topology_key, labels[term.topology_key]] > 0:
            return NOT_APART.message
    if any(existing[pair] > 0 for pair in labels.items()):
        return UNWANTED.message
    return None


def counts_of(world: HypotheticalWorld, pod: Pod, node: int) -> tuple[Counter[Pair], Counter[Pair], Counter[Pair]]:
    existing: Counter[Pair] = Counter()
    wanted: Counter[Pair] = Counter()
    unwanted: Counter[Pair] = Counter()
    terms = pod_affinity_terms("shop", pod.spec.affinity)

    def count(other: Pod, number: int, sign: int) -> None:
        labels = world.nodes[number].metadata.labels
        others = pod_affinity_terms(other.metadata.namespace, other.spec.affinity)
        matches_all = all(about(term, other) for term in terms.required)
        for counter, keys in (
            (existing, [term.topology_key for term in others.required_anti if about(term, pod)]),
            (wanted, [term.topology_key for term in terms.required if matches_all]),
            (unwanted, [term.topology_key for term in terms.required_anti if about(term, other)]),
        ):
            for key in keys:
                if key in labels:
                    counter[key, labels[key]] += sign

    for number in range(len(world.nodes)):
        for other in world.pods_on(number):
            count(other, number, 1)
    for change in world.changes:
        if change.node == node:
            count(world.pods[change.pod], node, change.sign)
    return existing, wanted, unwanted


def about(term: AffinityTerm, pod: Pod) -> bool:
    return term.matches(pod.metadata.namespace, pod.metadata.labels, {})


terms = st.builds(
    PodAffinityTerm,
    st.sampled_from(["zone", "host"]),
    st.sampled_from([LabelSelector(), LabelSelector({"app": "web"}), LabelSelector({"app": "db"})]),
    st.sampled_from([(), ("bank",), NAMESPACES]),
    st.sampled_from([None, None, LabelSelector()]),
)
rules = st.none() | st.builds(PodAffinity, st.lists(terms, max_size=2).map(tuple))
affinities = st.none() | st.builds(Affinity, st.none(), rules, rules)
pods = st.builds(
    lambda namespace, app, affinity: hypothetical_pod("", namespace=namespace, labels={"app": app}, affinity=affinity),
    st.sampled_from(NAMESPACES),
    st.sampled_from(["web", "db"]),
    affinities,
)


@given(hypothetical_worlds(pods), affinities, st.sampled_from(["web", "db"]))
def test_each_node_is_judged_in_its_own_world(world: HypotheticalWorld, affinity: Affinity | None, app: str) -> None:
    pod = hypothetical_pod("new", labels={"app": app}, affinity=affinity)
    cluster, nodes = world.view()
    plugin, state = plugin_for(cluster), CycleState(pod)
    as_it_is = world._replace(changes=[])
    own_terms = pod_affinity_terms("shop", affinity)
    is_skipped = not (own_terms.required or own_terms.required_anti or counts_of(as_it_is, pod, 0)[0])
    assert plugin.pre_filter(state, pod) == (SKIP if is_skipped else None)
    if is_skipped:
        return
    expected = [expected_reason(world, pod, number) for number in range(len(world.nodes))]
    assert reasons(plugin.filter(state, pod, nodes), nodes) == expected
    backwards = nodes.at(np.arange(len(nodes))[::-1])
    assert reasons(plugin.filter(state, pod, backwards), backwards) == expected[::-1]
    unchanged = cluster.view(None)
    assert reasons(plugin.filter(state, pod, unchanged), unchanged) == [
        expected_reason(as_it_is, pod, number) for number in range(len(world.nodes))
    ]

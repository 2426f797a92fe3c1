import weakref
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.pods.pod_counts import PodCounts, PodQuery
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.change_log import MOST_CHANGES
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import label_set_selector
from extender_service.kube.types.core import ObjectMeta, Pod, PodSpec
from tests.support import selectors as random_selectors
from tests.support.objects import make_node

WEB = PodQuery((PodSelector(frozenset({"shop"}), label_set_selector({"app": "web"})),))
LIVE_WEB = structs.replace(WEB, with_terminating=False)
DELETED_AT = "2024-01-01T00:00:00Z"

queries = st.builds(
    PodQuery,
    st.lists(st.builds(PodSelector, random_selectors.namespace_sets, random_selectors.selectors), max_size=2).map(
        tuple
    ),
    st.booleans(),
)
pods = st.builds(
    lambda name, namespace, labels, deleted, node: make_pod(name, node, namespace, labels, deleted),
    st.sampled_from([f"pod-{number}" for number in range(6)]),
    random_selectors.namespaces,
    random_selectors.labels,
    st.booleans(),
    st.sampled_from(["", "a", "b", "c"]),
)
steps = st.lists(
    st.one_of(
        pods,
        st.tuples(st.just("remove pod"), random_selectors.namespaces, st.integers(0, 5)),
        st.tuples(st.just("add node"), st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "1", "2"])),
        st.tuples(st.just("remove node"), st.sampled_from(["a", "b", "c"])),
    ),
    max_size=30,
)


def all_but_row_1(nodes: NodeView) -> NDArray[np.bool_]:
    included: NDArray[np.bool_] = nodes.rows != 1
    return included


def make_pod(
    name: str, node: str, namespace: str = "shop", labels: dict[str, str] | None = None, deleted: bool = False
) -> Pod:
    deletion = DELETED_AT if deleted else ""
    return Pod(
        ObjectMeta(
            name=name, namespace=namespace, uid=f"{namespace}-{name}", labels=labels or {}, deletion_timestamp=deletion
        ),
        PodSpec(node_name=node),
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(make_node(name))
    return cluster


def test_pods_are_counted_on_their_nodes(cluster: Cluster) -> None:
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}))
    cluster.apply_pod(make_pod("web-2", "b", labels={"app": "web"}))
    cluster.apply_pod(make_pod("web-3", "b", labels={"app": "web"}, deleted=True))
    cluster.apply_pod(make_pod("web-4", "", labels={"app": "web"}))
    cluster.apply_pod(make_pod("web-1", "b", "bank", labels={"app": "web"}))
    assert cluster.pod_counts.by_row(WEB, 2).tolist() == [1, 2]
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [1, 1]


def test_counts_follow_changes_of_labels_deletion_and_place(cluster: Cluster) -> None:
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [0, 0]
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "db"}))
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}))
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [1, 0]
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}, deleted=True))
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [0, 0]
    cluster.placements.place(make_pod("web-2", "", labels={"app": "web"}), "shop-web-2", "b")
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [0, 1]
    cluster.drop_placement("shop-web-2")
    assert cluster.pod_counts.by_row(LIVE_WEB, 2).tolist() == [0, 0]


def test_nodes_that_come_later_are_counted_on(cluster: Cluster) -> None:
    cluster.pod_counts.by_row(WEB, 2)
    for number in range(100):
        cluster.apply_node(make_node(f"node-{number}"))
        cluster.apply_pod(make_pod(f"web-{number}", f"node-{number}", labels={"app": "web"}))
    assert cluster.pod_counts.by_row(WEB, 102).tolist() == [0, 0, *[1] * 100]
    assert cluster.pod_counts.by_row(WEB, 200).sum() == 100


@pytest.mark.parametrize("times", [20, 40, MOST_CHANGES])
def test_counts_are_right_after_more_changes_than_are_applied_or_remembered(cluster: Cluster, times: int) -> None:
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}))
    assert cluster.pod_counts.by_row(WEB, 2).tolist() == [1, 0]
    for _ in range(times):
        cluster.apply_pod(make_pod("web-1", "b", labels={"app": "web"}))
        cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}))
    cluster.apply_pod(make_pod("web-1", "b", labels={"app": "web"}))
    assert cluster.pod_counts.by_row(WEB, 2).tolist() == [0, 1]


def test_sums_are_those_of_the_labels_at_that_time(cluster: Cluster) -> None:
    def pods_by_zone() -> list[int]:
        numbers, column = cluster.view(None).label("zone")
        pods: list[int] = cluster.pod_counts.by_value(WEB, numbers, column.values.size).tolist()
        return pods

    cluster.apply_node(make_node("a", labels={"zone": "1"}))
    cluster.apply_pod(make_pod("web-1", "a", labels={"app": "web"}))
    assert pods_by_zone() == [1, 0]
    cluster.apply_node(make_node("b", labels={"zone": "2"}))
    cluster.apply_node(make_node("a", labels={"zone": "3"}))
    cluster.apply_pod(make_pod("web-2", "a", labels={"app": "web"}))
    cluster.apply_pod(make_pod("web-3", "b", labels={"app": "web"}))
    assert sorted(pods_by_zone()) == [0, 0, 1, 2]
    cluster.apply_pod(make_pod("web-4", "a", labels={"app": "web"}))
    assert sorted(pods_by_zone()) == [0, 0, 1, 3]


def test_only_so_many_queries_are_kept(cluster: Cluster) -> None:
    counts = PodCounts(cluster.pods, most_entries=3)
    for number in range(10):
        counts.by_row(PodQuery((PodSelector(None, label_set_selector({"app": f"app-{number}"})),)), 2)
        assert 0 < len(counts) <= 3


@given(steps, st.lists(queries, min_size=1, max_size=3))
def test_counts_that_followed_every_change_are_those_counted_anew(
    steps: Sequence[object], queries: list[PodQuery]
) -> None:
    cluster = Cluster()
    for step in steps:
        match step:
            case Pod():
                cluster.apply_pod(step)
            case ("remove pod", str(namespace), int(number)):
                cluster.remove_pod((namespace, f"pod-{number}"))
            case ("add node", str(name), str(zone)):
                cluster.apply_node(make_node(name, labels={"zone": zone} if zone else {}))
            case ("remove node", str(name)):
                cluster.remove_node(name)
        size = cluster.nodes.size
        anew = PodCounts(cluster.pods)
        nodes = cluster.view(None)
        numbers, column = nodes.label("zone")
        included = nodes.remembered(all_but_row_1)
        for query in queries:
            assert cluster.pod_counts.by_row(query, size).tolist() == anew.by_row(query, size).tolist()
            for mask in (None, included):
                found = cluster.pod_counts.by_value(query, numbers, column.values.size, mask).tolist()
                amounts = anew.by_row(query, size) * (1 if mask is None else mask)
                values = [None if number == ABSENT else number for number in numbers.tolist()]
                pods = Counter[int | None]()
                for value, amount in zip(values, amounts.tolist(), strict=True):
                    pods[value] += amount
                assert found == [*(pods[value] for value in range(column.values.size)), 0]


@given(st.lists(pods, max_size=10))
def test_nothing_is_left_of_pods_that_are_gone(pods: list[Pod]) -> None:
    cluster = Cluster()
    for pod in pods:
        cluster.apply_pod(pod)
    for key in cluster.pod_keys():
        cluster.remove_pod(key)
    assert (len(cluster.pods), len(cluster.pods.label_sets), len(cluster.pods.term_sets)) == (0, 0, 0)
    assert (len(cluster.pods.affinity), len(cluster.pods.anti_affinity)) == (0, 0)


ZONES = 3


@pytest.fixture
def numbers() -> NDArray[np.intp]:
    """Rows 0 and 2 in zone 0, row 1 in zone 1, row 3 in none."""
    return np.array([0, 1, 0, ABSENT], np.intp)


@pytest.fixture
def zoned(cluster: Cluster) -> Cluster:
    """Nodes a to e in rows 0 to 4, each with a web pod."""
    for name in "abcde":
        cluster.apply_node(make_node(name))
        add_web(cluster, f"web-{name}", name)
    return cluster


def add_web(cluster: Cluster, name: str, node: str) -> None:
    cluster.apply_pod(make_pod(name, node, labels={"app": "web"}))


def test_pods_count_on_the_rows_that_are_included(zoned: Cluster, numbers: NDArray[np.intp]) -> None:
    included = np.array([True, False, False, True])
    assert zoned.pod_counts.by_value(WEB, numbers, ZONES, included).tolist() == [1, 0, 0, 0]
    assert zoned.pod_counts.by_value(WEB, numbers, ZONES).tolist() == [2, 1, 0, 0]
    assert zoned.pod_counts.by_value(WEB, numbers, ZONES, ~included).tolist() == [1, 1, 0, 0]


def test_sums_follow_the_pods_that_come_to_their_rows_and_go(zoned: Cluster, numbers: NDArray[np.intp]) -> None:
    counts, included = zoned.pod_counts, np.array([True, False, True, True])
    everywhere = counts.by_value(WEB, numbers, ZONES)
    some = counts.by_value(WEB, numbers, ZONES, included)
    # To rows that are included and not, one without a number, and two beyond the end.
    for name in "abcde":
        add_web(zoned, f"another-{name}", name)
    zoned.apply_node(make_node("f"))
    add_web(zoned, "web-f", "f")
    zoned.remove_pod(("shop", "web-c"))
    assert counts.by_value(WEB, numbers, ZONES).tolist() == [3, 2, 0, 0]
    assert counts.by_value(WEB, numbers, ZONES, included).tolist() == [3, 0, 0, 0]
    # They were not added up again.
    assert counts.by_value(WEB, numbers, ZONES) is everywhere
    assert counts.by_value(WEB, numbers, ZONES, included) is some


def test_sums_are_kept_of_two_labels_and_no_more(zoned: Cluster, numbers: NDArray[np.intp]) -> None:
    racks, rooms = numbers.copy(), numbers.copy()
    counts = zoned.pod_counts
    first, second = (counts.by_value(WEB, labels, ZONES) for labels in (numbers, racks))
    assert counts.by_value(WEB, numbers, ZONES) is first
    assert counts.by_value(WEB, racks, ZONES) is second
    was_kept = weakref.ref(first)
    del first
    counts.by_value(WEB, rooms, ZONES)
    assert was_kept() is None


def test_sums_that_nobody_can_ask_for_make_room(zoned: Cluster, numbers: NDArray[np.intp]) -> None:
    counts, racks, rooms, included = zoned.pod_counts, numbers.copy(), numbers.copy(), np.ones(4, np.bool_)
    kept = counts.by_value(WEB, numbers, ZONES)
    counts.by_value(WEB, racks, ZONES, included)
    del included
    add_web(zoned, "another", "a")
    counts.by_value(WEB, rooms, ZONES)
    assert counts.by_value(WEB, numbers, ZONES) is kept
    del rooms
    add_web(zoned, "a-third", "a")
    counts.by_value(WEB, racks, ZONES)
    assert counts.by_value(WEB, numbers, ZONES) is kept


def test_counts_are_whole_numbers(zoned: Cluster) -> None:
    assert zoned.pod_counts.by_row(WEB, 2).dtype == np.int64

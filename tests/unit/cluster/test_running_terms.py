import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.running_terms import RunningTerms, TermKey
from extender_service.kube.pod_affinity import AffinityTerm
from extender_service.kube.selectors import EVERYTHING, NOTHING, label_set_selector
from tests.unit.cluster import selectors as random_selectors

terms = st.builds(
    AffinityTerm,
    st.frozensets(random_selectors.namespaces, max_size=2),
    st.sampled_from([NOTHING, EVERYTHING, label_set_selector({"team": "a"})]),
    random_selectors.selectors,
    st.sampled_from(["zone", "host"]),
)
keys = st.builds(TermKey, terms, st.sampled_from([None, 5, -5]))
WEB = TermKey(AffinityTerm(frozenset({"shop"}), NOTHING, label_set_selector({"app": "web"}), "host"))


@given(
    st.lists(st.tuples(keys, st.integers(0, 3)), max_size=15),
    st.sets(st.integers(0, 14)),
    random_selectors.namespaces,
    random_selectors.labels,
    st.sampled_from([{}, {"team": "a"}]),
)
def test_the_terms_about_a_pod_are_found_with_their_pods(
    added: list[tuple[TermKey, int]],
    removed: set[int],
    namespace: str,
    labels: dict[str, str],
    namespace_labels: dict[str, str],
) -> None:
    running = RunningTerms()
    expected: dict[TermKey, list[int]] = {}
    for number, (key, row) in enumerate(added):
        running.add(key, row, 1)
        if number not in removed and key.term.matches(namespace, labels, namespace_labels):
            expected.setdefault(key, [0] * 4)[row] += 1
    for number, (key, row) in enumerate(added):
        if number in removed:
            running.add(key, row, -1)
    found = {}
    for counts in running.about(namespace, labels, namespace_labels):
        sums = np.zeros(4, np.int64)
        counts.add_by_value(sums, np.arange(4))
        found[counts.key] = sums.tolist()
    assert found == expected


def test_a_term_on_many_rows_is_counted_like_one_on_few() -> None:
    running = RunningTerms()
    zones = np.arange(500) % 3
    for row in range(500):
        running.add(WEB, row, 1)
    for row in range(0, 500, 3):
        running.add(WEB, row, -1)
    (counts,) = running.about("shop", {"app": "web"}, {})
    sums = np.zeros(3, np.int64)
    counts.add_by_value(sums, zones, 10)
    assert sums.tolist() == [0, 1670, 1660]
    for row in range(500):
        if row % 3:
            running.add(WEB, row, -1)
    assert len(running) == 0
    assert list(running.about("shop", {"app": "web"}, {})) == []


def test_the_pods_of_all_rows_with_a_value_are_added_up_with_the_terms_weight() -> None:
    running = RunningTerms()
    for row in (0, 1, 1, 2):
        running.add(WEB, row, 1)
    (counts,) = running.about("shop", {"app": "web"}, {})
    sums = np.array([7, 7])
    counts.add_by_value(sums, np.array([0, 0, 1]), -5)
    assert sums.tolist() == [7 - 15, 7 - 5]

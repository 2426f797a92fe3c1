import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.pods.running_terms import RunningTerms, TermCounts, TermKey
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.kube.parsing.pod_affinity import AffinityTerm
from extender_service.kube.parsing.selectors import EVERYTHING, NOTHING, label_set_selector
from tests.support import selectors as random_selectors
from tests.support.memory import kept_bytes

terms = st.builds(
    AffinityTerm,
    st.frozensets(random_selectors.namespaces, max_size=2),
    st.sampled_from([NOTHING, EVERYTHING, label_set_selector({"team": "a"})]),
    random_selectors.selectors,
    st.sampled_from(["zone", "host"]),
)
keys = st.builds(TermKey, terms, st.sampled_from([None, 5, -5]))
WEB = TermKey(AffinityTerm(frozenset({"shop"}), NOTHING, label_set_selector({"app": "web"}), "host"))
WEB_PODS = LabelSet("shop", {"app": "web"})


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
    for counts in running.about(LabelSet(namespace, labels), namespace_labels):
        sums = np.zeros(4, np.int64)
        counts.add_by_value(sums, np.arange(4))
        found[counts.key] = sums.tolist()
    assert found == expected


@given(
    st.lists(st.tuples(st.integers(0, 49), st.booleans(), st.sampled_from(["zones", "racks"])), max_size=30),
    st.integers(0, 50),
)
def test_sums_that_followed_every_change_are_those_added_up_anew(
    steps: list[tuple[int, bool, str]], present: int
) -> None:
    running = RunningTerms(most_sums=2)
    by_row = np.zeros(50, np.int64)
    for row in range(present):
        running.add(WEB, row, 1)
        by_row[row] += 1
    numbers = {"zones": np.arange(50) % 3 - 1, "racks": np.arange(50) // 10}
    for row, comes, key in steps:
        if comes or by_row[row]:
            running.add(WEB, row, 1 if comes else -1)
            by_row[row] += 1 if comes else -1
        for counts in running.about(WEB_PODS, {}):
            sums, expected = np.zeros(6, np.int64), np.zeros(6, np.int64)
            running.add_by_value(counts, sums, numbers[key], 10)
            np.add.at(expected, numbers[key], 10 * by_row)
            assert sums.tolist() == expected.tolist()
        assert running.sum_count <= 1


@given(st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=300))
def test_the_pods_on_each_row_are_counted_however_far_apart_the_rows_are(steps: list[tuple[int, bool]]) -> None:
    counts = TermCounts(WEB)
    by_row = np.zeros(401, np.int64)
    for row in [*range(0, 120, 3), *(row for row, _ in steps)]:
        counts.add(row, 1)
        by_row[row] += 1
    for row, goes in steps:
        if goes:
            counts.add(row, -1)
            by_row[row] -= 1
    sums = np.zeros(401, np.int64)
    counts.add_by_value(sums, np.arange(401))
    assert (sums.tolist(), counts.total) == (by_row.tolist(), by_row.sum())


def test_a_term_on_few_rows_far_apart_takes_no_array() -> None:
    counts = TermCounts(WEB), TermCounts(WEB)

    def count() -> None:
        dense, sparse = counts
        for number in range(40):
            dense.add(number, 1)
            sparse.add(number * 1000, 1)
        dense.add(100_000, 1)

    assert kept_bytes(count) < 20_000


def test_sums_are_kept_for_so_many_terms() -> None:
    running = RunningTerms(most_sums=2)
    keys = [TermKey(WEB.term, weight) for weight in range(5)]
    for key in keys:
        for row in range(40):
            running.add(key, row, 1)
    rows = np.arange(40)
    for counts in running.about(WEB_PODS, {}):
        sums = np.zeros(41, np.int64)
        running.add_by_value(counts, sums, rows)
        assert sums.tolist() == [*[1] * 40, 0]
    assert running.sum_count == 2
    for key in keys:
        for row in range(40):
            running.add(key, row, -1)
    assert (len(running), running.sum_count) == (0, 0)


def test_a_term_on_many_rows_is_counted_like_one_on_few() -> None:
    running = RunningTerms()
    zones = np.arange(500) % 3
    for row in range(500):
        running.add(WEB, row, 1)
    for row in range(0, 500, 3):
        running.add(WEB, row, -1)
    (counts,) = running.about(WEB_PODS, {})
    sums = np.zeros(3, np.int64)
    counts.add_by_value(sums, zones, 10)
    assert sums.tolist() == [0, 1670, 1660]
    for row in range(500):
        if row % 3:
            running.add(WEB, row, -1)
    assert len(running) == 0
    assert list(running.about(WEB_PODS, {})) == []


def test_the_pods_of_all_rows_with_a_value_are_added_up_with_the_terms_weight() -> None:
    running = RunningTerms()
    for row in (0, 1, 1, 2):
        running.add(WEB, row, 1)
    (counts,) = running.about(WEB_PODS, {})
    sums = np.array([7, 7])
    counts.add_by_value(sums, np.array([0, 0, 1]), -5)
    assert sums.tolist() == [7 - 15, 7 - 5]


def test_which_terms_are_about_pods_is_known_anew_when_a_term_comes_or_goes_or_the_namespace_changes() -> None:
    running = RunningTerms()
    selected = TermKey(AffinityTerm(frozenset(), label_set_selector({"team": "a"}), EVERYTHING, "host"))

    def about(namespace_labels: dict[str, str]) -> list[TermKey]:
        return [counts.key for counts in running.about(WEB_PODS, namespace_labels)]

    assert about({}) == []
    running.add(WEB, 0, 1)
    assert about({}) == [WEB]
    running.add(selected, 0, 1)
    assert about({}) == [WEB]
    assert set(about({"team": "a"})) == {WEB, selected}
    assert about({}) == [WEB]
    running.add(WEB, 0, -1)
    assert about({}) == []


def test_it_is_remembered_for_so_many_pods_which_terms_are_about_them() -> None:
    running = RunningTerms()
    running.add(WEB, 0, 1)
    for number in range(1000):
        assert running.about(LabelSet("shop", {"app": f"web-{number}"}), {}) == ()
    assert running.about_count <= 64
    assert len(running.about(WEB_PODS, {})) == 1

import weakref
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import synthetic
from bench.decision import default_profile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.memo import BriefMemo, Memo, RowMemo
from extender_service.cluster.view.node_view import NodeView
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question
from tests.support.objects import make_node, make_pod

HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture
def memo() -> Memo:
    return Memo(None, most_entries=64, most_bytes=1 << 20)


class Answers:
    """Answers with the next number to each call."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_: object) -> int:
        self.count += 1
        return self.count

    def array(self, nodes: NodeView) -> NDArray[np.float64]:
        return np.full(len(nodes), float(self()))

    def zeros(self, size: int) -> NDArray[np.float64]:
        self()
        return np.zeros(size)

    def nothing(self) -> None:
        self()


@pytest.fixture
def answers() -> Answers:
    return Answers()


def test_a_result_is_found_again_and_none_is_one(memo: Memo, answers: Answers) -> None:
    assert [memo.of(None, answers, (), ("x",)) for _ in range(3)] == [1, 1, 1]
    for _ in range(2):
        memo.of(None, answers.nothing, ())
    assert answers.count == 2
    assert memo.of(None, answers, (), ("y",)) == 3


def test_a_result_holds_while_its_version_is_equal(memo: Memo, answers: Answers) -> None:
    for version, equal in ((1000, int("1000")), ((1, 2), (1, int("2"))), ({"team": "a"}, {"team": "a"})):
        found = memo.of(version, answers, ())
        assert memo.of(equal, answers, ()) == found
        assert memo.of(7, answers, ()) == found + 1
        assert memo.of(None, answers, ()) == found + 2
        assert len(memo) == 1


def test_an_object_as_version_is_compared_by_identity(memo: Memo, answers: Answers) -> None:
    array, equal = np.zeros(3), np.zeros(3)
    assert [memo.of(version, answers, ()) for version in (array, array, equal, equal, array)] == [1, 1, 2, 2, 3]


def test_what_takes_the_place_of_another_does_not_use_up_room(memo: Memo, answers: Answers) -> None:
    memo.of(None, answers, ())
    for version in range(1000):
        memo.of(version, answers.zeros, (10_000,))
    assert memo.of(None, answers, ()) == 1


def test_results_that_are_not_used_go_first(memo: Memo, answers: Answers) -> None:
    for number in range(1000):
        assert memo.of(None, answers, (), ("often",)) == 1
        for _ in range(2):
            last = memo.of(None, answers, (), (number,))
        assert memo.of(None, answers, (), (number,)) == last
        assert len(memo) <= 64
    before = answers.count
    memo.of(None, answers, (), (980,))
    assert answers.count == before
    memo.of(None, answers, (), (930,))
    assert answers.count == before + 1


def test_beyond_a_few_a_result_is_kept_from_the_second_time_on(memo: Memo, answers: Answers) -> None:
    for number in range(16):
        assert memo.of(None, answers, (), (number,)) == memo.of(None, answers, (), (number,))
    assert [memo.of(None, answers, (), ("x",)) for _ in range(3)] == [17, 18, 18]
    for number in range(100, 1100):
        memo.of(None, answers, (), (number,))
    assert len(memo) == 17
    # Of those asked for once, the last few are known.
    before = answers.count
    for number in (100, 1099):
        memo.of(None, answers, (), (number,))
        memo.of(None, answers, (), (number,))
    assert answers.count == before + 3


def test_large_keys_and_large_results_are_not_kept(memo: Memo, answers: Answers) -> None:
    large = "x" * (1 << 20)
    assert [memo.of(None, answers, (), (large,)) for _ in range(2)] == [1, 2]
    for _ in range(2):
        assert memo.of(None, answers.zeros, (1 << 18,)).size == 1 << 18
    assert answers.count == 4
    assert len(memo) == 0
    for number in range(64):
        memo.of(None, answers, (), (f"{number}{'x' * 1000}",))
    assert 8 <= len(memo) < 18
    assert memo.size_bytes <= memo.most_bytes


@pytest.mark.parametrize("argument", [2**70, "\ud800", (float("nan"),), Answers, frozenset({("a", None)})])
def test_an_argument_may_be_anything_that_can_be_hashed(memo: Memo, answers: Answers, argument: object) -> None:
    assert [memo.of(None, answers, (), (argument,)) for _ in range(2)] == [1, 1]


def test_a_version_of_another_kind_is_another(memo: Memo, answers: Answers) -> None:
    versions: list[object] = [np.zeros(2), (1, 2), 3, {}, np.zeros(2), None]
    assert [memo.of(version, answers, ()) for version in versions] == [1, 2, 3, 4, 5, 6]


def test_a_selection_has_the_numbers_of_the_column_that_there_is() -> None:
    cluster = Cluster()
    for name, zone in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "1")):
        cluster.apply_node(make_node(name, labels={"zone": zone} | {f"key-{number}": "" for number in range(300)}))
        cluster.view(None).label("zone")
    rows = np.array([2, 0])
    cluster.view(rows).label("zone")
    # So many other labels that the column is forgotten, and made again from the first row on.
    for number in range(300):
        cluster.view(None).label(f"key-{number}")
    numbers, column = cluster.view(None).label("zone")
    of_selection, same_column = cluster.view(rows).label("zone")
    assert same_column is column
    assert of_selection.tolist() == numbers[rows].tolist()
    assert [column.values.values[number] for number in of_selection.tolist()] == ["1", "3"]


def test_selections_that_are_asked_for_again_have_the_same_answers(answers: Answers) -> None:
    nodes = RowMemo(None, 3)
    found = [nodes.at(np.array(rows)).of(None, answers, ()) for rows in ([0, 2], [2, 0], [0, 2], [1, 2], [0, 2])]
    assert found == [1, 2, 3, 4, 3]
    selected = nodes.at(np.array([0, 2]))
    assert selected.rows is not None
    assert (selected.rows.tolist(), selected.size) == ([0, 2], 2)
    assert nodes.entry_count == 1


def test_a_selection_of_a_selection_is_of_its_rows() -> None:
    selected = RowMemo(None, 4).at(np.array([3, 1, 2])).at(np.array([2, 0]))
    assert selected.rows is not None
    assert selected.rows.tolist() == [2, 3]


def test_only_so_much_is_kept_of_nodes_and_selections_of_them(answers: Answers) -> None:
    nodes = RowMemo(None, 2)
    for number in range(1000):
        nodes.of(None, answers, (), (number,))
        nodes.at(np.array([number % 50, 1])).of(None, answers.zeros, (2,), ())
        assert nodes.entry_count <= nodes.most_entry_count
    assert nodes.size_bytes <= nodes.most_bytes
    before = len(nodes)
    nodes.of(None, answers.zeros, (1 << 18,))
    assert len(nodes) == before


def test_a_memo_for_one_decision_keeps_the_first_few_results(answers: Answers) -> None:
    nodes = BriefMemo(np.array([3, 1]), 2)
    for number in range(1, 101):
        assert nodes.of(None, answers, (), (number,)) == number
    assert len(nodes) == 64
    assert [nodes.of(None, answers, (), (number,)) for number in (1, 64, 65, 65)] == [1, 64, 101, 102]


def test_a_memo_for_one_decision_is_of_its_rows_and_follows_versions(answers: Answers) -> None:
    nodes = BriefMemo(np.array([3, 1]), 2)
    assert [nodes.of(version, answers, ()) for version in (1, 1, 2, 2)] == [1, 1, 2, 2]
    selected = nodes.at(np.array([1]))
    assert (selected.rows.tolist(), selected.size, len(selected)) == ([1], 1, 0)
    assert selected.of(2, answers, ()) == 3


def test_a_node_that_changes_ends_it() -> None:
    cluster, answers = Cluster(), Answers()
    cluster.apply_node(make_node("a"))
    assert cluster.view(None).remembered(answers) == 1
    cluster.apply_pod(make_pod("web", "a"))
    cluster.apply_node(make_node("a", resource_version="2"))
    assert cluster.view(None).remembered(answers) == 1
    changes: list[Callable[[], None]] = [
        lambda: cluster.apply_node(make_node("a", labels={"zone": "1"})),
        lambda: cluster.apply_node(make_node("b")),
        lambda: cluster.apply_pod(make_pod("early", "comes-later")),
        lambda: cluster.remove_node("b"),
    ]
    for change in changes:
        before = cluster.view(None).remembered(answers)
        change()
        assert cluster.view(None).remembered(answers) == before + 1


def test_a_version_that_changes_ends_it() -> None:
    cluster, answers = Cluster(), Answers()
    cluster.apply_node(make_node("a"))
    nodes = cluster.view(None)
    found = [nodes.remembered_at(version, answers, "argument") for version in (1, 1, (1, 2), (1, 2), 1)]
    assert found == [1, 1, 2, 2, 3]
    scores = np.zeros(1)
    assert [nodes.remembered_at(version, answers) for version in (scores, scores, np.zeros(1))] == [4, 4, 5]


def test_nodes_that_came_whole_are_remembered_apart() -> None:
    cluster, answers = Cluster(), Answers()
    cluster.apply_node(make_node("a"))
    assert cluster.view(None).remembered(answers) == 1
    table = cluster.with_nodes([make_node("a", labels={"zone": "1"})])
    assert cluster.view(None, table).remembered(answers) == 2
    assert cluster.view(None).remembered(answers) == 1


def test_what_is_shared_cannot_be_written_to() -> None:
    cluster, answers = Cluster(), Answers()
    cluster.apply_node(make_node("a", labels={"zone": "1"}))
    cluster.apply_node(make_node("b", labels={"zone": "2"}))
    for nodes in (cluster.view(None), cluster.view(np.array([1]))):
        shared = [nodes.label("zone")[0], nodes.allocatable(0), nodes.kept_by_facts(answers.array)]
        for array in (*shared, nodes.remembered(answers.array)):
            with pytest.raises(ValueError, match="read-only"):
                array += 1
    for column in (cluster.view(None).unschedulable, cluster.view(None).taint_set):
        with pytest.raises(ValueError, match="read-only"):
            column[:] = 1


def test_nodes_that_are_kept_do_not_keep_what_is_remembered_of_them() -> None:
    cluster, answers = Cluster(), Answers()
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    for nodes in (cluster.view(None), cluster.view(np.array([1]))):
        before = nodes.remembered(answers)
        kept = nodes.to_keep()
        assert kept.names == nodes.names
        assert kept.remembered(answers) == before + 1


def test_a_pod_that_is_expected_keeps_nothing_that_is_remembered() -> None:
    cluster = synthetic.cluster(20, 2)
    profile = default_profile(cluster)
    for kind in (*synthetic.CLASSES, "volumes"):
        pod = synthetic.pending_pod(kind)
        nodes = cluster.view(None)
        decision = decide(profile, Question(pod, AllNodes(nodes)))
        remembered = weakref.ref(nodes.label(HOSTNAME)[0])
        del nodes
        state = decision.state
        del decision
        cluster.apply_node(make_node("another", labels={"for": kind}))
        cluster.view(None)
        assert remembered() is None, f"{kind}: {state} keeps it"


def test_the_last_four_selections_are_kept() -> None:
    nodes = RowMemo(None, 5)
    first, *others = [[nodes.at(np.array([position])) for _ in range(2)][1] for position in range(5)]
    assert all(nodes.at(np.array([position])) is known for position, known in enumerate(others, 1))
    assert nodes.at(np.array([0])) is not first

import weakref
from collections.abc import Callable

import numpy as np
import pytest

from bench import synthetic
from bench.decision import default_profile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.memo import Remembered
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question
from tests.unit.cluster.objects import make_node, make_pod

HOSTNAME = "kubernetes.io/hostname"


def fails() -> int:
    raise AssertionError("was worked out again")


def test_what_was_worked_out_is_not_worked_out_again() -> None:
    nodes = Remembered(None, 3)
    assert nodes.of("answer", lambda: 42) == 42
    assert nodes.of("answer", fails) == 42
    assert nodes.of("none", lambda: None) is nodes.of("none", fails) is None
    with pytest.raises(AssertionError):
        nodes.of("another", fails)


def test_what_was_made_as_of_something_else_is_made_again() -> None:
    nodes = Remembered(None, 2)
    for count, made in ((1, 10), (1, 10), (2, 20), (1, 30)):
        assert nodes.of("answer", lambda made=made: made, as_of=count) == made  # type: ignore[misc]
    assert nodes.of("answer", fails, as_of=1) == 30
    assert len(nodes) == 1


def test_what_takes_the_place_of_another_does_not_use_up_room() -> None:
    nodes = Remembered(None, 2)
    nodes.of("other", lambda: 1)
    for count in range(1000):
        nodes.of("answer", lambda: np.zeros(100), as_of=count)
    assert nodes.of("other", fails) == 1


def test_a_selection_has_the_numbers_of_the_column_that_there_is() -> None:
    cluster = Cluster()
    for name, zone in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "1")):
        cluster.apply_node(make_node(name, labels={"zone": zone} | {f"key-{number}": "" for number in range(300)}))
        cluster.view(None).label("zone")
    rows = np.array([2, 0])
    cluster.view(rows).label("zone")
    # So many other labels that the column is forgotten, and made anew from the first row on.
    for number in range(300):
        cluster.view(None).label(f"key-{number}")
    numbers, column = cluster.view(None).label("zone")
    of_selection, same_column = cluster.view(rows).label("zone")
    assert same_column is column
    assert of_selection.tolist() == numbers[rows].tolist()
    assert [column.values.values[number] for number in of_selection.tolist()] == ["1", "3"]


def test_the_same_selections_have_the_same_answers() -> None:
    nodes = Remembered(None, 3)
    assert nodes.at(np.array([0, 2])).of("answer", lambda: 1) == 1
    assert nodes.at(np.array([2, 0])).of("answer", lambda: 2) == 2
    assert nodes.at(np.array([0, 2])).of("answer", fails) == 1
    selected = nodes.at(np.array([0, 2]))
    assert selected.rows is not None
    assert (selected.rows.tolist(), selected.size) == ([0, 2], 2)
    assert len(nodes) == 2


def test_a_selection_of_a_selection_is_of_its_rows() -> None:
    selected = Remembered(None, 4).at(np.array([3, 1, 2])).at(np.array([2, 0]))
    assert selected.rows is not None
    assert selected.rows.tolist() == [2, 3]


def test_only_so_much_is_remembered() -> None:
    nodes = Remembered(None, 2)
    for number in range(1000):
        assert nodes.of(number, lambda number=number: number) == number  # type: ignore[misc]
        positions = np.array([number % 50, 1])
        assert nodes.at(positions).of(number, lambda: np.zeros(2)).tolist() == [0, 0]
        assert len(nodes) <= nodes.limit
    assert nodes.of("large", lambda: np.zeros(1000)).size == 1000
    with pytest.raises(AssertionError):
        nodes.of("large", fails)
    for number in range(100):
        nodes.of(("wide", number), lambda: np.zeros(64))
    assert len(nodes.at(np.array([0, 1]))) + sum(("wide", number) in nodes for number in range(100)) <= 2


def test_a_node_that_changes_ends_it() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    first = cluster.view(None)
    assert first.remembered("answer", lambda: 1) == 1
    cluster.apply_pod(make_pod("web", "a"))
    cluster.apply_node(make_node("a", resource_version="2"))
    assert cluster.view(None).remembered("answer", fails) == 1
    changes: list[Callable[[], None]] = [
        lambda: cluster.apply_node(make_node("a", labels={"zone": "1"})),
        lambda: cluster.apply_node(make_node("b")),
        lambda: cluster.apply_pod(make_pod("early", "comes-later")),
        lambda: cluster.remove_node("b"),
    ]
    for change in changes:
        cluster.view(None).remembered("answer", lambda: 1)
        change()
        assert cluster.view(None).remembered("answer", lambda: 2) == 2


def test_nodes_that_came_whole_are_remembered_apart() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    assert cluster.view(None).remembered("answer", lambda: 1) == 1
    table = cluster.with_nodes([make_node("a", labels={"zone": "1"})])
    assert cluster.view(None, table).remembered("answer", lambda: 2) == 2
    assert cluster.view(None).remembered("answer", fails) == 1


def test_what_is_shared_cannot_be_written_to() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a", labels={"zone": "1"}))
    cluster.apply_node(make_node("b", labels={"zone": "2"}))
    for nodes in (cluster.view(None), cluster.view(np.array([1]))):
        shared = [nodes.label("zone")[0], nodes.allocatable(0), nodes.kept_by_facts("key", lambda nodes: nodes.rows)]
        for array in (*shared, nodes.remembered("ours", lambda: np.zeros(2))):
            with pytest.raises(ValueError, match="read-only"):
                array += 1
    for column in (cluster.view(None).unschedulable, cluster.view(None).taint_set):
        with pytest.raises(ValueError, match="read-only"):
            column[:] = 1


def test_nodes_that_are_kept_do_not_keep_what_is_remembered_of_them() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    for nodes in (cluster.view(None), cluster.view(np.array([1]))):
        nodes.remembered("ours", lambda: np.zeros(2))
        kept = nodes.to_keep()
        assert kept.names == nodes.names
        assert kept.remembered("ours", lambda: np.ones(2)).tolist() == [1, 1]


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


@pytest.mark.parametrize(
    ("answers", "numbers_each"),
    [(64, 2), (2, 64), (1, 128)],
    ids=["64 answers", "64 numbers a node", "64 numbers a node in one answer"],
)
def test_of_some_nodes_so_much_is_remembered_and_no_more(answers: int, numbers_each: int) -> None:
    nodes = Remembered(None, 2)
    # What goes makes room for as much again.
    for turn in range(3):
        for number in range(answers):
            nodes.of((turn, number), lambda: np.zeros(numbers_each))
            assert len(nodes) == number + 1
    assert all((2, number) in nodes for number in range(answers))
    nodes.of("more than a node may have", lambda: np.zeros(2 * 64 + 1))
    assert len(nodes) == 0


def test_the_last_four_selections_are_remembered() -> None:
    nodes = Remembered(None, 5)
    first, *others = [nodes.at(np.array([position])) for position in range(5)]
    assert all(nodes.at(np.array([position])) is known for position, known in enumerate(others, 1))
    assert nodes.at(np.array([0])) is not first

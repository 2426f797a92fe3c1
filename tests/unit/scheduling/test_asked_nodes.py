import numpy as np
import pytest

from extender_service.scheduling import asked_nodes
from extender_service.scheduling.asked_nodes import NodeFinder, find_rows
from tests.support.objects import cluster_of, make_node


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The lists of names that were looked up."""
    looked_up: list[object] = []

    def looking_up(table: object, names: object) -> object:
        looked_up.append(names)
        return find_rows(table, names)  # type: ignore[arg-type]

    monkeypatch.setattr(asked_nodes, "find_rows", looking_up)
    return looked_up


def test_a_list_that_came_before_is_not_looked_up_again_until_a_node_comes(lookups: list[object]) -> None:
    cluster = cluster_of([make_node("a"), make_node("b")])
    finder, names = NodeFinder(cluster), ["b", "a"]
    assert finder.named(names).asks_the_same(finder.named(names))
    assert lookups == [names]
    cluster.apply_node(make_node("c"))
    assert finder.named(names).in_question.tolist() == [True, True, False]
    assert lookups == [names, names]


def test_lists_that_do_not_come_again_do_not_push_out_those_that_do(lookups: list[object]) -> None:
    """Each binding names one node, each preemption some nodes, in lists of their own."""
    finder = NodeFinder(cluster_of([make_node("a"), make_node("b")]))
    names = ["b", "a"]
    finder.named(names)
    for _ in range(10):
        assert finder.named_once(["a", "new"]).unknown == ["new"]
    lookups.clear()
    finder.named(names)
    assert lookups == []


def test_all_nodes_are_asked_about_whichever_come() -> None:
    cluster = cluster_of([make_node("a"), make_node("b")])
    finder = NodeFinder(cluster)
    everywhere = finder.all()
    assert list(everywhere.names) == ["a", "b"]
    assert everywhere.asks_the_same(finder.named(["b", "a"]))
    cluster.remove_node("a")
    assert list(everywhere.again(finder).names) == ["b"]
    assert list(finder.named(["a"]).again(finder).unknown) == ["a"]


def test_only_all_nodes_are_all() -> None:
    finder = NodeFinder(cluster_of([make_node("a"), make_node("b")]))
    assert finder.all().are_all
    assert not finder.named(["a", "b"]).are_all
    assert not finder.marked(np.array([True, True])).are_all


def test_marked_nodes_are_those_that_exist_and_are_found_again_by_name() -> None:
    cluster = cluster_of([make_node("a"), make_node("b"), make_node("c")])
    finder = NodeFinder(cluster)
    cluster.remove_node("a")
    marked = finder.marked(np.array([True, True, False]))
    assert list(marked.names) == ["b"]
    assert marked.passing(marked.in_question).tolist() == [True]
    cluster.apply_node(make_node("d"))  # takes the row of a, which was marked
    again = marked.again(finder)
    assert list(again.names) == ["b"]
    assert again.view.names_at(np.flatnonzero(again.in_question)) == ["b"]

"""What is carried on from change to change is what working it out anew would give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import POD_COUNT
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import Carried, OwnWorlds, RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import parse_label_selector
from extender_service.kube.types.core import LabelSelector
from tests.support.clusters.preemption_worlds import running
from tests.support.objects import make_node

WEB = PodSelector(None, parse_label_selector(LabelSelector({"app": "web"})))
SLOTS = np.arange(12)


def make_cluster() -> Cluster:
    """Four nodes, and on each three pods, one of which has a host port that others have, too."""
    cluster = Cluster()
    for node in range(4):
        cluster.apply_node(make_node(str(node), {"cpu": "8"}))
        for number, (app, ports) in enumerate((("web", ()), ("db", (80,)), ("web", (80 + node % 2,)))):
            name = f"pod-{node}-{number}"
            cluster.apply_pod(running(name, str(node), priority=0, cpu=number + 1, started=0, app=app, ports=ports))
    return cluster


def asked(nodes: NodeView, what: str) -> list[object]:
    if what == "requested":
        found: list[object] = nodes.requested_of((POD_COUNT, nodes.dimension("cpu"), -1)).tolist()
    elif what == "ports":
        numbers, sets = nodes.port_sets()
        found = [sets[number] for number in numbers.tolist()]
    elif what == "selected":
        found = nodes.pods_added((WEB,)).tolist()
    elif what == "slots":
        found = [[pod.slot for pod in nodes.pods_at(position)] for position in range(len(nodes))]
    else:
        found = nodes.pods_among(SLOTS[::2]).tolist()
    return found


COLUMNS = ("requested", "ports", "selected", "slots", "among")
changes = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(SLOTS.tolist()), st.sampled_from([-1, 1])), max_size=6)
steps = st.lists(
    st.one_of(changes, st.permutations(range(4)).flatmap(lambda order: st.sampled_from([order, order[:2]]).map(tuple))),
    max_size=6,
)


@given(steps, st.lists(st.sampled_from(COLUMNS), max_size=6))
def test_columns_are_the_same_whenever_they_were_asked_for_first(
    steps: list[list[tuple[int, int, int]] | tuple[int, ...]], asked_on_the_way: list[str]
) -> None:
    cluster = make_cluster()
    nodes = cluster.view(None).changed(RowChanges([0], [0], [-1]))
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            nodes = nodes.at(np.array([position for position in step if position < len(nodes)], np.intp))
        else:
            moved = [change for change in step if change[0] < len(nodes)]
            positions, slots, signs = zip(*moved, strict=True) if moved else ((), (), ())
            nodes = nodes.changed(RowChanges(positions, slots, signs))
        if number < len(asked_on_the_way):
            asked(nodes, asked_on_the_way[number])
    assert nodes.changes is not None
    anew = cluster.view(nodes.rows).changed(nodes.changes)
    for what in COLUMNS:
        assert asked(nodes, what) == asked(anew, what)


class Counting(Carried):
    """The number of changes at each node, and how many changes were followed."""

    def __init__(self) -> None:
        self.begun = self.followed = 0

    def begin(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        self.begun += 1
        return np.zeros(len(rows), np.int64)

    def follow(self, column: NDArray[np.int64], changes: RowChanges) -> None:
        self.followed += len(changes.slots)
        np.add.at(column, changes.positions, 1)


@pytest.mark.parametrize("length", [5, 50])
def test_each_change_is_followed_once(length: int) -> None:
    counting = Counting()
    worlds = OwnWorlds(np.arange(3))
    for _ in range(length):
        worlds = worlds.then(RowChanges([0, 1], [7, 8], [1, 1]))
        worlds.at(np.array([1])).column("changes", lambda: counting)
    assert worlds.column("changes", Counting).values.tolist() == [length, length, 0]
    assert (counting.begun, counting.followed) == (1, 2 * length)


def test_what_is_asked_of_one_world_does_not_show_in_those_before_it() -> None:
    cluster = make_cluster()
    before = cluster.view(None).changed(RowChanges([0], [0], [-1]))
    cpu = before.dimension("cpu")
    assert before.requested(cpu).tolist() == [5000, 6000, 6000, 6000]
    after = before.changed(RowChanges([0, 1], [0, 3], [1, -1]))
    assert after.requested(cpu).tolist() == [6000, 5000, 6000, 6000]
    assert before.requested(cpu).tolist() == [5000, 6000, 6000, 6000]
    assert cluster.view(None).requested(cpu).tolist() == [6000, 6000, 6000, 6000]
    assert not cluster.view(None).is_changed


def test_the_nodes_that_changes_are_about_are_marked() -> None:
    changes = RowChanges([3, 0, 3], [7, 8, 9], [1, 1, -1])
    marked = changes.changes_at(5)
    assert marked.dtype == np.bool_
    assert marked.tolist() == [True, False, False, True, False]

"""The nodes that a question asks about: names turned into rows of the node table."""

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView

# Lists of names to keep: filter and prioritize ask about different nodes, and so do several kube-schedulers.
_MOST_LISTS = 4
_MOST_LIST_BYTES = 12 << 20
# Bytes of a node's name and position. A name that is not a node's may be longer.
_BYTES_A_NAME = 150


class FoundRows(msgspec.Struct):
    """Where names were found in a node table.

    - `rows`: those that a view needs, or None for the whole table
    - `positions`: the position in that view by index of the name, -1 for a node that is not known
    - `in_question`: which positions of the view are asked about
    - `unknown`: the indexes of the names that the table does not have
    """

    rows: NDArray[np.intp] | None
    positions: NDArray[np.intp]
    in_question: NDArray[np.bool_]
    unknown: list[int]


class AskedNodes:
    """The nodes of a `view` that a question is about: those that are `in_question`, by position.

    `names` are theirs, `found` and `positions` as in FoundRows. These three are computed in the order of the view when
    they are read, unless the constructor of a subclass has them. Each subclass sets `view` and `in_question`.

    - `by_name`: they are the cluster's own nodes, as opposed to nodes that a caller sent whole
    - `are_all`: no node of the cluster is left out, whichever nodes come
    """

    by_name = True
    are_all = False
    view: NodeView
    in_question: NDArray[np.bool_]

    @cached_property
    def found(self) -> FoundRows:
        """Where the nodes are in the view."""
        return FoundRows(None, np.flatnonzero(self.in_question), self.in_question, [])

    @cached_property
    def positions(self) -> NDArray[np.intp]:
        """The position of each node in the view."""
        return self.found.positions

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the nodes."""
        return self.view.names_at(self.positions)

    @property
    def unknown(self) -> list[str]:
        """Names of nodes that the cluster does not have."""
        return [self.names[index] for index in self.found.unknown]

    def passing(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the names, in the caller's order, are nodes whose positions are marked."""
        if not self.found.unknown:
            return chosen[self.positions]
        known = (self.positions >= 0).nonzero()[0]
        passing = np.zeros(len(self.positions), np.bool_)
        passing[known] = chosen[self.positions[known]]
        return passing

    def asks_the_same(self, others: "AskedNodes") -> bool:
        """Return whether the same nodes are asked about, in any order. No node may have come or gone since."""
        if self.found is others.found:
            return True
        of_all = self.found.rows is None and others.found.rows is None
        return of_all and self.by_name and others.by_name and np.array_equal(self.in_question, others.in_question)

    def index_of(self, position: int) -> int:
        """Return the index among the names of the node at a position."""
        return int(np.flatnonzero(self.positions == position)[0])

    def again(self, finder: "NodeFinder") -> "AskedNodes":
        """Find the cluster's nodes of the same names, in a view of their current state."""
        return finder.named(self.names)


class AllNodes(AskedNodes):
    """All nodes of a view that exist."""

    are_all = True

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.in_question = view.exists

    def again(self, finder: "NodeFinder") -> AskedNodes:
        """Find all nodes that there are now."""
        return finder.all()


class MarkedNodes(AskedNodes):
    """The nodes of a view that exist and are marked, by position."""

    def __init__(self, view: NodeView, marked: NDArray[np.bool_]) -> None:
        self.view = view
        self.in_question = view.exists & marked


class NamedNodes(AskedNodes):
    """Nodes by name, in the caller's order; some may not exist."""

    def __init__(self, names: Sequence[str], view: NodeView, found: FoundRows) -> None:
        self.view = view
        self.in_question = found.in_question
        self.names = names
        self.positions = found.positions
        self.found = found


class NodeFinder:
    """Finds nodes of the cluster by name, and caches the positions for the last few lists of names."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recent: LastFew[tuple[Sequence[str], int], FoundRows] = LastFew(
            "places of names", most_entries=_MOST_LISTS, most_entry_bytes=_MOST_LIST_BYTES
        )

    def all(self) -> AskedNodes:
        """Return all nodes of the cluster."""
        return AllNodes(self._cluster.view(None))

    def marked(self, rows: NDArray[np.bool_]) -> AskedNodes:
        """Return the nodes at the marked rows of the node table, of which some may be empty."""
        return MarkedNodes(self._cluster.view(None), rows)

    def named(self, names: Sequence[str]) -> AskedNodes:
        """Find nodes by name. The same list object as in an earlier call is not looked up again."""
        found = self._rows(names)
        return NamedNodes(names, self._cluster.view(found.rows), found)

    def named_once(self, names: Sequence[str]) -> AskedNodes:
        """Find nodes by name, without caching the list, as it will not come again."""
        found = find_rows(self._cluster.nodes, names)
        return NamedNodes(names, self._cluster.view(found.rows), found)

    def _rows(self, names: Sequence[str]) -> FoundRows:
        table = self._cluster.nodes
        for (of_names, membership), found, _ in self._recent.entries:
            if of_names is names and membership == table.membership:
                return found
        found = find_rows(table, names)
        unknown = sum(map(len, map(names.__getitem__, found.unknown)))
        self._recent.keep((names, table.membership), found, _BYTES_A_NAME * len(names) + 4 * unknown)
        return found


def find_rows(table: NodeTable, names: Sequence[str]) -> FoundRows:
    """Look names up in a node table."""
    rows = table.rows_named(names)
    is_known = rows >= 0
    unknown: list[int] = np.flatnonzero(~is_known).tolist()
    # If the list names most of the table, judging all of it costs less than copying columns.
    if 2 * len(rows) >= table.size:
        asked = np.zeros(table.size, np.bool_)
        asked[rows[is_known]] = True
        return FoundRows(None, rows, asked, unknown)
    known = rows[is_known]
    places: NDArray[np.intp] = np.arange(len(known))
    marks = np.zeros(table.size, np.bool_)
    marks[known] = True
    if np.count_nonzero(marks) < len(known):
        # A node that is named twice has one position, so that changes of a node, such as a nominated pod, apply once.
        known, places = np.unique(known, return_inverse=True)
    positions = np.full(len(rows), -1, np.intp)
    positions[is_known] = places
    return FoundRows(known, positions, np.ones(len(known), np.bool_), unknown)

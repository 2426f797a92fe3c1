"""What plugins computed from the nodes of a table, kept for the next decision."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from extender_service.caches import CacheSize, LruCache, listed
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.structures.following_columns import RowColumns
from extender_service.cluster.structures.memo import MOST_SELECTIONS, BriefMemo, RowMemo


class NodeMemory:
    """Columns and memos beside a table of nodes, which knows nothing of them; a copy of the table has others.

    - `by_facts`: columns that depend on the facts of each node, `by_room` on what it offers and what its pods take
    - `memo`: results that depend on the facts of all nodes together, or of some
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.by_facts = RowColumns(None, table.fact_changes)
        self.by_room = RowColumns(None, table.amount_changes, table.amounts_key)
        self._memo = RowMemo(None, 0)
        self._memo_at = -1
        listed(self)

    @overload
    def memo(self, rows: None = None) -> RowMemo: ...

    @overload
    def memo(self, rows: NDArray[np.intp] | None) -> RowMemo | BriefMemo: ...

    def memo(self, rows: NDArray[np.intp] | None = None) -> RowMemo | BriefMemo:
        """Return the memo of the nodes in some rows as they are now, of all nodes for None."""
        change_count = self.table.fact_changes.count
        if change_count != self._memo_at:
            self._memo, self._memo_at = RowMemo(None, self.table.size), change_count
        return self._memo if rows is None else self._memo.at(rows)

    def current_size(self) -> CacheSize:
        """Return how full columns and memos are, all together."""
        parts: list[LruCache[Any, Any]] = [*self.memo().all(), self.by_facts, self.by_room]
        return CacheSize(
            "results about nodes",
            sum(len(part) for part in parts),
            sum(part.size_bytes for part in parts),
            (1 + MOST_SELECTIONS) * self._memo.most_bytes + self.by_facts.most_bytes + self.by_room.most_bytes,
        )

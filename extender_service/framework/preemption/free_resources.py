"""The resources that are free on nodes for a pod, while preemption tries which pods may stay there.

Where Filter looks at nothing else, this takes the place of running plugins on hypothetical nodes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.interface import Needs

Positions = NDArray[np.intp]


class FreeResources:
    """How much is free on each node of a view of what a pod needs, by a plugin's `needs`; it is enough on all of them.

    It must be enough with and without the nominated pods that are `joining` nodes. `require_time` raises CycleError
    after the deadline. `count_evaluations` passes to `count` how often a node was judged, and how often it passed.
    """

    def __init__(
        self,
        nodes: NodeView,
        needs: Needs,
        joining: RowChanges | None,
        require_time: Callable[[], None],
        count: Callable[[int, int], None],
    ) -> None:
        dimensions = needs.dimensions
        self._nodes = nodes
        self._dimensions = dimensions
        self._needed = np.array(needs.amounts, np.int64)[:, None]
        self._free = nodes.allocatable_of(dimensions) - nodes.requested_of(dimensions)
        self._require_time = require_time
        self._count = count
        self._nominated: NDArray[np.int64] | None = None
        if joining is not None:
            self._nominated = np.zeros_like(self._free)
            self._is_joined = joining.changes_at(len(nodes))
            requested = nodes.requests_of(joining.slots, dimensions)
            for of_dimension, amounts in zip(self._nominated, requested, strict=True):
                np.add.at(of_dimension, joining.positions, amounts)
        self._judged = self._passed = 0

    def put_back(self, nodes: Positions, slots: Positions) -> NDArray[np.bool_]:
        """Put a pod back on each of some nodes, and return where it stays, as there is enough left for the other."""
        self._require_time()
        # As the plugin subtracts: sums that overflow wrap around.
        left = self._free[:, nodes] - self._nodes.requests_of(slots, self._dimensions)
        stays: NDArray[np.bool_] = np.logical_and.reduce(left >= self._needed)
        self._judged += len(nodes)
        if self._nominated is not None:
            fits_beside = np.logical_and.reduce(left - self._nominated[:, nodes] >= self._needed)
            self._count_both(self._is_joined[nodes], fits_beside)
            stays &= fits_beside
        self._passed += int(np.count_nonzero(stays))
        staying = stays.nonzero()[0]
        self._free[:, nodes[staying]] = left[:, staying]
        return stays

    def count_evaluations(self) -> None:
        """Count what was judged, instead of what plugins would have."""
        self._count(self._judged, self._passed)

    def _count_both(self, is_joined: NDArray[np.bool_], fits_beside: NDArray[np.bool_]) -> None:
        """Count the runs with nominated pods, each of which precedes one without if it passes."""
        twice = int(np.count_nonzero(is_joined & fits_beside))
        self._judged += twice
        self._passed += twice

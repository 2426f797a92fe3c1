"""The scores of a decision, and their weighted sums."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.structures.extremes import highest_of
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Score

# From so many nodes on, totals are added up plugin by plugin.
_MANY_NODES = 2_000


class Scores:
    """Scores of the nodes of a view: an array with a row per plugin, and the weight of each plugin.

    `totals` are the sums of the weighted scores, one entry per node.
    """

    def __init__(self, plugins: Sequence[Score], weights: Sequence[int], scores: NDArray[np.int64]) -> None:
        self._plugins = plugins
        self._weights = np.array(weights, np.int64)
        self._scores = scores
        self.totals: NDArray[np.int64]
        if scores.shape[1] < _MANY_NODES or not plugins:
            self.totals = self._weights.dot(scores)
        else:  # of integers, in half the time that a product of matrices takes
            self.totals = scores[0] * weights[0]
            for of_plugin, weight in zip(scores[1:], weights[1:], strict=True):
                self.totals += of_plugin if weight == 1 else of_plugin * weight

    def change(self, node: int, rows: list[int], scores: NDArray[np.int64]) -> None:
        """Replace the scores that the plugins in some rows give one node."""
        of_node = self._scores[:, node]
        of_node[rows] = scores
        self.totals[node] = self._weights.dot(of_node)

    def replace(self, row: int, scores: NDArray[np.int64]) -> None:
        """Replace the scores that the plugin in a row gives all nodes. Raises CycleError if any is out of range."""
        _require_range(self._plugins[row : row + 1], scores[None])
        more = scores - self._scores[row]
        more *= self._weights[row]
        self.totals += more
        self._scores[row] = scores

    @property
    def weighted(self) -> dict[str, NDArray[np.int64]]:
        """What each plugin contributes, its score times its weight: arrays with one entry per node."""
        names = [plugin.name for plugin in self._plugins]
        return dict(zip(names, self._weights[:, None] * self._scores, strict=True))


def weighed(plugins: Sequence[Score], weights: Sequence[int], scores: NDArray[np.int64]) -> Scores:
    """Weigh what plugins score, a row for each. Raises CycleError if a score is out of range."""
    _require_range(plugins, scores)
    return Scores(plugins, weights, scores)


def _require_range(plugins: Sequence[Score], scores: NDArray[np.int64]) -> None:
    # Read as unsigned numbers, negative scores are above the maximum.
    if highest_of(scores.view(np.uint64), axis=None, initial=0) <= MAX_NODE_SCORE:
        return
    wrong = (scores > MAX_NODE_SCORE) | (scores < MIN_NODE_SCORE)
    node = int(wrong.any(axis=0).argmax())
    plugin = int(wrong[:, node].argmax())
    raise CycleError(
        f'applying score defaultWeights on Score plugins: plugin "{plugins[plugin].name}" returns an invalid score '
        f"{scores[plugin, node]}, "
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )

"""How plugins bring their scores into one range (plugins/helper/normalize_score.go)."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.structures.extremes import highest_of, lowest_of
from extender_service.framework.interface import MAX_NODE_SCORE
from extender_service.plugins.shared.integer_division import divide_towards_zero

_FEW_SCORES = 256


def scale_to_max(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Return scores scaled so that the highest becomes MAX_NODE_SCORE; with `reverse` it becomes 0.

    Scores should not be negative. Where one is above 0, negative ones are scaled, too, towards zero.
    """
    highest = int(highest_of(scores, initial=0))
    if highest == 0:
        return scores + MAX_NODE_SCORE if reverse else scores
    if lowest_of(scores) < 0:  # as in NodeAffinity, whose configuration may have negative weights
        scaled = divide_towards_zero(MAX_NODE_SCORE * scores, np.int64(highest))
        return MAX_NODE_SCORE - scaled if reverse else scaled
    if highest < _FEW_SCORES:
        # Dividing each of the scores that there may be takes a fraction of the time.
        return _scaled(np.arange(highest + 1), highest, reverse=reverse).take(scores)
    return _scaled(scores, highest, reverse=reverse)


def _scaled(scores: NDArray[np.int64], highest: int, *, reverse: bool) -> NDArray[np.int64]:
    scaled: NDArray[np.int64] = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled

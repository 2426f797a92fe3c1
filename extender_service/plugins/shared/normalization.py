"""How plugins bring their scores into one range (plugins/helper/normalize_score.go)."""

import numpy as np
from numpy.typing import NDArray

from extender_service.framework.interface import MAX_NODE_SCORE

# The method `max` calls a function in Python first.
_highest = np.maximum.reduce


def scale_to_max(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Return non-negative scores scaled so that the highest becomes MAX_NODE_SCORE; with `reverse` it becomes 0."""
    highest = int(_highest(scores, initial=0))
    if highest == 0:
        return scores + MAX_NODE_SCORE if reverse else scores
    scaled: NDArray[np.int64] = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled

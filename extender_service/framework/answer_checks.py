"""What is wrong with a plugin's answer, if anything: plugins are written by anybody.

Each function returns None for an answer that can be used, else what was given and what was wanted.
"""

from collections.abc import Collection
from numbers import Real

import numpy as np

from extender_service.framework.status import Rejections, Status

_INT64 = np.dtype(np.int64)


def wrong_names(answer: object) -> str | None:
    """For PreFilter, which may name the only nodes in question."""
    is_right = isinstance(answer, Collection) and not isinstance(answer, str)
    return None if is_right else _instead(answer, "a Status, the names of nodes or None")


def wrong_status(answer: object) -> str | None:
    """For what returns a status."""
    return None if isinstance(answer, Status) else _instead(answer, "a Status or None")


def wrong_permit(answer: object) -> str | None:
    """For Permit, which may name a time to wait."""
    match answer:
        case (None | Status(), Real()):
            return None
        case _:
            return _instead(answer, "a Status or None, and seconds")


def wrong_rejections(answer: object, nodes: int) -> str | None:
    """For Filter."""
    if not isinstance(answer, Rejections):
        return _instead(answer, "Rejections or None")
    return None if answer.keys.shape == (nodes,) else f"Rejections of {len(answer.keys)} nodes, not of all {nodes}"


def wrong_scores(answer: object, nodes: int) -> str | None:
    """For Score and its normalization."""
    if isinstance(answer, np.ndarray) and answer.dtype == _INT64 and answer.shape == (nodes,):
        return None
    return _instead(answer, f"{nodes} scores of int64")


def _instead(answer: object, wanted: str) -> str:
    given = f"an array {answer.shape} of {answer.dtype}" if isinstance(answer, np.ndarray) else type(answer).__name__
    return f"{given}, not {wanted}"

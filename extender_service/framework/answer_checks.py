"""Checks of plugins' answers, since a user's plugin may return anything.

Each function returns None for a usable answer, else a text with what the plugin returned and what was expected.
"""

import inspect
import math
from collections.abc import Collection, Iterable, Sequence
from numbers import Real

import numpy as np

from extender_service.cluster.amounts.dimensions import UNOFFERED
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.interface import Candidate, Needs, PostFilterResult
from extender_service.framework.status import Code, Rejections, Status

_INT64 = np.dtype(np.int64)
_LEAST_INT64, _MOST_INT64 = -(2**63), 2**63 - 1
# `numbers.Integral` takes several times as long, which counts once for each node.
_WHOLE_NUMBERS = (int, np.integer)


def wrong_names(answer: object) -> str | None:
    """Check an answer of PreFilter, which may name the only nodes to look at."""
    return _wrong_items(answer, Collection, str, "a Status, the names of nodes or None")


def wrong_status(answer: object) -> str | None:
    """Check an answer of an extension point that returns a status if it refuses, waits or skips."""
    if not isinstance(answer, Status):
        return _instead(answer, "a Status or None")
    # In Go, plugins may return it instead of nil.
    return "Status(Code.SUCCESS): return None instead" if answer.code == Code.SUCCESS else None


def wrong_awaitable(answer: object) -> str | None:
    """Check what the method of PreBind or Bind returns before it is awaited."""
    return None if inspect.isawaitable(answer) else _instead(answer, "an awaitable: the method must be `async def`")


def wrong_permit(answer: object) -> str | None:
    """Check an answer of Permit: a status, and the seconds to wait."""
    match answer:
        case (None | Status() as status, Real() as seconds):
            if math.isnan(seconds):
                return "NaN as seconds, not a number"
            return None if status is None else wrong_status(status)
        case _:
            return _instead(answer, "a Status or None, and seconds")


def wrong_post_filter(answer: object, nodes: NodeView) -> str | None:
    """Check an answer of PostFilter about `nodes`, except its candidates, which may come from a generator."""
    if not isinstance(answer, PostFilterResult):
        return _instead(answer, "a PostFilterResult")
    # None of the types is checked when a plugin makes the answer.
    status: object = answer.status
    clears_nomination: object = answer.clears_nomination
    candidates: object = answer.candidates
    if not isinstance(status, Status):
        return f"a PostFilterResult whose status is {_instead(status, 'a Status')}"
    if not isinstance(clears_nomination, bool | np.bool_):
        return f"a PostFilterResult whose clears_nomination is {_instead(clears_nomination, 'a bool')}"
    if not isinstance(candidates, Iterable):
        return f"a PostFilterResult whose candidates are {_instead(candidates, 'an iterable of Candidate')}"
    wrong = _wrong_room(answer, nodes)
    return None if wrong is None else f"a PostFilterResult {wrong}"


def wrong_candidates(candidates: Iterable[object], nodes: NodeView) -> str | None:
    """Check the candidates in an answer of PostFilter about `nodes`."""
    for candidate in candidates:
        if not isinstance(candidate, Candidate):
            return f"a PostFilterResult with a candidate that is {_instead(candidate, 'a Candidate')}"
        wrong = _wrong_candidate(candidate, nodes)
        if wrong is not None:
            return f"a PostFilterResult with a Candidate {wrong}"
    return None


def _wrong_candidate(candidate: Candidate, nodes: NodeView) -> str | None:
    wrong = _wrong_room(candidate, nodes)
    if wrong is not None:
        return wrong
    if not candidate.victims:
        return "without victims"
    # Extenders are sent it, and read an int64. msgspec encodes none of NumPy's numbers.
    violations: object = candidate.pdb_violations
    if type(violations) is not int:
        return f"whose pdb_violations are {_instead(violations, 'an int')}"
    return None if 0 <= violations <= _MOST_INT64 else f"whose pdb_violations are {violations}, not a count"


def _wrong_room(answer: PostFilterResult | Candidate, nodes: NodeView) -> str | None:
    """Check a node and the victims there."""
    # The API server is sent it. msgspec encodes no subclass of str, such as NumPy's.
    node_name: object = answer.node_name
    if type(node_name) is not str:
        return f"whose node_name is {_instead(node_name, 'a str')}"
    if node_name and not nodes.table.is_node(node_name):
        return f'whose node_name "{node_name}" is no node of the cluster'
    wrong = _wrong_items(answer.victims, Sequence, _WHOLE_NUMBERS, "a tuple of slots")
    if wrong is not None:
        return f"whose victims are {wrong}"
    free = next((slot for slot in answer.victims if not nodes.has_pod(slot)), None)
    if free is not None:
        return f"whose victim {free} is no slot of a pod"
    return "with victims and no node_name" if answer.victims and not node_name else None


def wrong_needs(answer: object, nodes: NodeView) -> str | None:
    """Check what a Filter says that must be left on each of `nodes`."""
    if not isinstance(answer, Needs):
        return _instead(answer, "Needs or None")
    for name, numbers in answer._asdict().items():
        wrong = _wrong_items(numbers, tuple, _WHOLE_NUMBERS, "whole numbers")
        if wrong is not None:
            return f"Needs whose {name} are {wrong}"
    dimensions, amounts = len(answer.dimensions), len(answer.amounts)
    if dimensions != amounts:
        return f"Needs with {dimensions} dimensions and {amounts} amounts"
    for dimension, amount in zip(answer.dimensions, answer.amounts, strict=True):
        if dimension != UNOFFERED and not nodes.table.dimensions.is_used(dimension):
            return f"Needs whose dimension {dimension} is that of no resource"
        if not _LEAST_INT64 <= amount <= _MOST_INT64:
            return f"Needs whose amount {amount} is beyond int64"
    return None


def wrong_rejections(answer: object, nodes: int) -> str | None:
    """Check an answer of Filter for so many `nodes`."""
    if not isinstance(answer, Rejections):
        return _instead(answer, "Rejections or None")
    keys: object = answer.keys
    if not isinstance(keys, np.ndarray) or keys.dtype != _INT64:
        return f"Rejections whose keys are {_instead(keys, 'an array of int64')}"
    return None if keys.shape == (nodes,) else f"Rejections whose keys have the shape {keys.shape}, not {(nodes,)}"


def wrong_scores(answer: object, nodes: int) -> str | None:
    """Check an answer of Score or of its normalization for so many `nodes`."""
    if isinstance(answer, np.ndarray) and answer.dtype == _INT64 and answer.shape == (nodes,):
        return None
    return _instead(answer, f"{nodes} scores of int64")


def wrong_score(answer: object) -> str | None:
    """Check a score of one node. As in an array of scores, a bool is no number."""
    is_right = isinstance(answer, _WHOLE_NUMBERS) and not isinstance(answer, bool)
    return None if is_right else _instead(answer, "a whole number")


def _wrong_items(
    answer: object, container: type[Iterable[object]], items: type | tuple[type, ...], wanted: str
) -> str | None:
    """Check an answer of several items, without any Python per item: there may be thousands. A bool is no number."""
    if not isinstance(answer, container) or isinstance(answer, str):
        return _instead(answer, wanted)
    if isinstance(answer, np.ndarray) and answer.ndim != 1:
        return _instead(answer, wanted)
    types = set(map(type, answer))
    other = next((given for given in types if given is bool or not issubclass(given, items)), None)
    return None if other is None else f"{type(answer).__name__} of {other.__name__}, not {wanted}"


def _instead(answer: object, wanted: str) -> str:
    given = f"an array {answer.shape} of {answer.dtype}" if isinstance(answer, np.ndarray) else type(answer).__name__
    return f"{given}, not {wanted}"

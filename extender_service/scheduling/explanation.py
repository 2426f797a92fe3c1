"""Explains a decision: how many nodes were refused, by which plugin and why, and what the best nodes scored."""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.framework.fit_text import counted_reasons, fit_text
from extender_service.framework.guard import CycleError
from extender_service.framework.scores import Scores
from extender_service.framework.verdicts import Settled, Verdicts
from extender_service.scheduling.decision import Decision

log = logging.getLogger(__name__)

# A plugin may give a different reason for each node: the rarest are counted together, and long ones are cut.
_MOST_REASONS = 100
_MOST_CHARACTERS = 1000
OTHER_REASONS = "node(s) had other reasons"
# How many nodes a line of the log has scores of.
_SCORED_NODES = 3


class Grounds(msgspec.Struct, frozen=True, gc=False):
    """The parts of a decision that its explanation needs. They stay valid when the cluster changes.

    The question is left out, as it may hold a request of many megabytes.

    - `names`, `positions`: of the asked nodes, as in AskedNodes; `unknown` counts those that the cluster lacks
    - `verdicts`, `feasible`, `scores`, `chosen`: as in Decision. Where nodes were scored without Filter, `verdicts` is
      None, `unknown` 0, and `feasible` has the nodes that were scored
    """

    names: Sequence[str]
    positions: NDArray[np.intp]
    unknown: int
    verdicts: Verdicts | None
    feasible: NDArray[np.intp]
    scores: Scores | None
    chosen: int | None


class RefusedNodes(NamedTuple):
    """The nodes that were refused, counted by reason, and by the plugin that refused them first, in its turn.

    A node with two reasons counts for each. A node that the framework refused counts for no plugin: its reason names
    the plugins whose PreFilter left it out, or the field of the pod that is not supported.
    """

    reasons: dict[str, int]
    plugins: dict[str, int]


class NodeScore(NamedTuple):
    """A node's total score, and what each plugin contributes to it: its score times its weight."""

    node_name: str
    total: int
    by_plugin: dict[str, int]


def grounds(decision: Decision) -> Grounds:
    """Return the parts of a decision that its explanation needs."""
    asked = decision.question.nodes
    return Grounds(
        asked.names,
        asked.positions,
        len(asked.found.unknown),
        decision.verdicts,
        decision.feasible,
        decision.scores,
        decision.chosen,
    )


def refusals(on: Grounds) -> RefusedNodes:
    """Count why nodes were refused; those that the cluster lacks are not counted."""
    reasons: dict[str, int] = {}
    plugins: dict[str, int] = {}
    for settled in () if on.verdicts is None else on.verdicts.settled():
        total, counted = len(settled.keys), 0
        if settled.plugin:
            plugins[settled.plugin] = plugins.get(settled.plugin, 0) + total
        for key, nodes in _most_frequent(settled.keys):
            for reason in _reasons(settled, key):
                reasons[reason] = reasons.get(reason, 0) + nodes
            counted += nodes
        if counted < total:
            reasons[OTHER_REASONS] = reasons.get(OTHER_REASONS, 0) + total - counted
    return RefusedNodes(reasons, plugins)


def looked_at(verdicts: Verdicts) -> int:
    """Return how many nodes there is a verdict on: fewer than were asked about where these are sampled."""
    return int(np.count_nonzero(verdicts.passing)) + sum(len(settled.keys) for settled in verdicts.settled())


def best_scores(on: Grounds, most: int) -> list[NodeScore]:
    """Return the scores of up to `most` of the best nodes; among equal ones, the chosen node is first.

    The list is empty where no score was needed, or no plugin scores.
    """
    if on.scores is None:
        return []
    totals, weighted = on.scores.totals, on.scores.weighted
    count = min(most, len(totals))
    if not count or not weighted:
        return []
    # With all that score as much as the last one of them: sorting thousands of others would take most of the time.
    best = np.flatnonzero(totals >= np.partition(totals, -count)[-count])
    best = best[np.lexsort((on.feasible[best] != on.chosen, -totals[best]))][:count]
    return [
        NodeScore(
            on.names[int(np.flatnonzero(on.positions == on.feasible[at])[0])],
            int(totals[at]),
            {plugin: int(scores[at]) for plugin, scores in weighted.items()},
        )
        for at in best
    ]


def why_chosen(decision: Decision) -> str:
    """Return for a user why a decision chose its node: what the best two nodes scored, and which plugin made most of
    the difference, or why there was nothing to choose."""
    if decision.question.is_nominated:
        return "its nominated node"
    on = grounds(decision)
    best = best_scores(on, 2)
    if len(best) == 2:
        return _comparison(on, *best)
    passed, asked, reasons = len(on.feasible), looked_at(decision.verdicts), refusals(on).reasons
    found = fit_text(asked, counted_reasons(reasons), passed) if reasons else f"{passed}/{asked} nodes are available."
    if asked < len(on.positions):
        found = f"{found} {len(on.positions) - asked} more were not looked at."
    return found if passed == 1 else f"{found} No plugin scores them: one was taken at random."


def _comparison(on: Grounds, first: NodeScore, second: NodeScore) -> str:
    assert on.scores is not None
    equal = int(np.count_nonzero(on.scores.totals == first.total))
    rank = f"one of the {equal} best" if equal > 1 else "the best"
    found = f"{rank} of {len(on.feasible)} feasible nodes: {_total(first)}, {_total(second)}"
    if equal > 1:
        return found
    plugin = max(first.by_plugin, key=lambda name: first.by_plugin[name] - second.by_plugin[name])
    return f"{found} (most by {plugin}: {first.by_plugin[plugin]} to {second.by_plugin[plugin]})"


def _total(node: NodeScore) -> str:
    return f"{node.node_name} {node.total}"


def explained(
    on: Grounds, asked: int, passed: int, *, unknown_reason: str = "", with_scores: bool = False
) -> dict[str, object]:
    """Return the fields of a line of the log about a decision: `reasons`, `refused_by` and, `with_scores`, `scores`.

    What has nothing to say is left out. `unknown_reason` is that of nodes that the cluster lacks.
    """
    fields: dict[str, object] = {}
    reasons, plugins = refusals(on)
    if on.unknown:
        reasons[unknown_reason] = reasons.get(unknown_reason, 0) + on.unknown
    if reasons:
        fields["reasons"] = fit_text(asked, counted_reasons(reasons), passed)
    if plugins:
        fields["refused_by"] = ", ".join(f"{count} {plugin}" for plugin, count in plugins.items())
    if with_scores and (best := best_scores(on, _SCORED_NODES)):
        fields["scores"] = "; ".join(map(_score, best))
    return fields


def _score(node: NodeScore) -> str:
    by_plugin = ", ".join(f"{plugin} {score}" for plugin, score in node.by_plugin.items())
    return f"{_total(node)}: {by_plugin}"


def _most_frequent(keys: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Iterate over the distinct keys and their counts; only over the most frequent keys if there are many."""
    if not np.count_nonzero(keys != keys[0]):  # mostly true, and faster than sorting
        yield int(keys[0]), len(keys)
        return
    ordered = np.sort(keys)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(starts, append=len(ordered))
    if len(starts) > _MOST_REASONS:
        frequent = np.argsort(-counts, kind="stable")[:_MOST_REASONS]
        starts, counts = starts[frequent], counts[frequent]
    yield from zip(ordered[starts].tolist(), counts.tolist(), strict=True)


def _reasons(settled: Settled, key: int) -> list[str]:
    try:
        reasons = settled.status_of(key).reasons
    except CycleError as error:
        extra = {"plugin": settled.plugin, "error": str(error)}
        log.error("a plugin cannot say why it refused a node", extra=extra)  # noqa: TRY400 - the traceback is logged
        return [OTHER_REASONS]
    return [reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}…" for reason in reasons]

"""Runs the Filter plugins of a profile on the nodes of a view.

Statuses and their order follow kube-scheduler (framework/runtime/framework.go, schedule_one.go).
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import wrong_rejections
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import call, require_answer
from extender_service.framework.interface import Filter
from extender_service.framework.profile import Profile
from extender_service.framework.status import Rejections, Status, unresolvable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod


class PreFilterOutcome:
    """The outcome of PreFilter: a rejection of the pod on all nodes, or the names of the only nodes to look at (None:
    all)."""

    def __init__(self, rejection: Status | None, node_names: set[str] | None, restricting: Sequence[str]) -> None:
        self.rejection = rejection
        self.node_names = node_names
        # The plugins that named nodes.
        self.restricting = restricting

    @property
    def elsewhere(self) -> Status:
        """The status of the nodes that PreFilter left out."""
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.restricting))}]")


# PreFilter rejected nothing and named no nodes.
UNRESTRICTED = PreFilterOutcome(None, None, ())


class Again(NamedTuple):
    """How Filter runs on nodes with other pods: `passed` are the plugins that are known to pass all of these nodes, and
    `evaluations` counts the nodes that each plugin judges, or would."""

    evaluations: Counter[str]
    passed: frozenset[str]


def filter_nodes(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    nodes: NodeView,
    asked: NDArray[np.bool_],
    found: PreFilterOutcome,
    nominated: Nominated = (),
    again: Again | None = None,
) -> Verdicts:
    """Run Filter on the asked nodes, each plugin once, until no node is left.

    A plugin's failure on a node is the node's verdict. Nodes with nominated pods are judged with these pods, which are
    likely to run there. If such a node passes, it is judged again without them, as they may not come
    (RunFilterPluginsWithNominatedPods).
    """
    joining = nominated_as_changes(nodes, nominated)
    verdicts = Verdicts(nodes if joining is None else nodes.changed(joining), asked)
    if found.rejection is not None:
        everywhere = np.ones(len(verdicts.remaining), np.bool_)
        verdicts.reject(found.rejection.plugin, Rejections.where(everywhere, found.rejection))
        return verdicts
    if found.node_names is not None:
        verdicts.leave_out(Rejections.where(~verdicts.remaining.is_named(found.node_names), found.elsewhere))
    _run_filters(profile, state, pod, verdicts, again)
    if joining is not None:
        joined = np.flatnonzero(verdicts.passing & joining.changes_at(len(nodes)))
        without = Verdicts(nodes.at(joined), np.ones(len(joined), np.bool_))
        _run_filters(profile, state, pod, without, again)
        verdicts.take_over(without, joined)
        # The verdicts' view shows the nodes without nominated pods.
        verdicts.view = nodes
    return verdicts


def nominated_as_changes(nodes: NodeView, nominated: Nominated) -> RowChanges | None:
    """Return the nominated pods as changes of the nodes that they are nominated for; None if there is none of these."""
    if not nominated:
        return None
    slots, positions = nominated.slots, nodes.positions_of_rows(nominated.rows)
    if nominated.names:
        positions = positions.copy()
        positions[nominated.rows < 0] = nodes.positions_of(nominated.names)
    here = (positions >= 0).nonzero()[0]
    if not len(here):
        return None
    return RowChanges(positions[here], slots[here], np.ones(len(here), np.int64))


def _run_filters(profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, again: Again | None = None) -> None:
    for plugin in profile.filter:
        if not verdicts.left:
            break
        if plugin.name in state.skipped_filters:
            continue
        if again is not None:
            again.evaluations[plugin.name] += verdicts.left
            if plugin.name in again.passed:
                continue
        # Not by `rejections_of`: one more call for each plugin is a hundredth of a decision.
        nodes = verdicts.remaining
        rejections = call(state, plugin, "Filter", plugin.filter, state, pod, nodes)
        if rejections is not None:
            require_answer(plugin, "Filter", wrong_rejections(rejections, len(nodes)))
            verdicts.reject(plugin.name, rejections)


def rejections_of(plugin: Filter, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
    """Run Filter of one plugin. Raises CycleError."""
    rejections = call(state, plugin, "Filter", plugin.filter, state, pod, nodes)
    if rejections is not None:
        require_answer(plugin, "Filter", wrong_rejections(rejections, len(nodes)))
    return rejections

"""NodeAffinity: a pod goes only to nodes that it, or the configuration, selects; some of them it prefers."""

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.args import PluginArgs
from extender_service.config.model import OmitMissing
from extender_service.config.problems import Problem
from extender_service.config.rules import Rules
from extender_service.config.strict_objects import StrictObject
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, PreScore, Reach, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable
from extender_service.kube.parsing.field_errors import described
from extender_service.kube.parsing.selectors import (
    NODE_NAME_FIELD,
    Operator,
    PreferredSchedulingTerms,
    RequiredNodeAffinity,
    SelectorError,
    parse_node_selector,
    parse_preferred_terms,
    preferred_node_affinity,
    required_node_affinity,
)
from extender_service.kube.parsing.selectors import ParsedNodeSelector as ParsedSelector
from extender_service.kube.types import core
from extender_service.kube.types.core import Node, NodeSelector, ObjectMeta, Pod, PreferredSchedulingTerm
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.event_objects import old_and_new, only_new
from extender_service.plugins.shared.node_matching import matches_affinity, matches_node_selector, preference
from extender_service.plugins.shared.normalization import scale_to_max

NO_MATCH = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")

_REQUIRED = "PreFilterNodeAffinity"
_PREFERRED = "PreScoreNodeAffinity"


class NodeAffinityArgs(PluginArgs):
    """An affinity that every pod of the profile has besides its own; with None there is none."""

    kind: Literal["NodeAffinityArgs"] = "NodeAffinityArgs"
    added_affinity: Annotated[StrictObject[core.NodeAffinity] | None, OmitMissing] = None

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that the affinity is one that a pod may have (ValidateNodeAffinityArgs)."""
        added = self.added_affinity
        if added is None:
            return
        required = () if added.required is None else added.required.node_selector_terms
        # A term of any weight is read as a required one is.
        weighted = tuple(PreferredSchedulingTerm(weight=1, preference=term) for term in required)
        here = f"{path}.addedAffinity"
        yield from _faults(weighted, f"{here}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", rules)
        yield from _faults(added.preferred, f"{here}.preferredDuringSchedulingIgnoredDuringExecution", rules)


def _faults(terms: tuple[PreferredSchedulingTerm, ...], path: str, rules: Rules) -> Iterator[Problem]:
    try:
        parse_preferred_terms(terms)
    except SelectorError as error:
        for each in error.errors:
            place, _, message = each.text(rules.wording).partition(": ")
            yield Problem(f"{path}{place}", message)


class NodeAffinity(PreFilter, Filter, PreScore, Score):
    """Rejects nodes that the pod's selector and required affinity, or `addedAffinity`, do not match; scores by the
    weights of the preferred terms that do."""

    name: ClassVar[str] = "NodeAffinity"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    args_type: ClassVar[type | None] = NodeAffinityArgs
    retry_on = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compares = handle.rules.hints_compare
        if handle.rules.fewer_events_wake:
            self.retry_on = (node_changes(handle.rules, ActionType.UPDATE_NODE_LABEL),)
        added = args.added_affinity
        self._enforced = parse_node_selector(added.required) if added is not None and added.required else None
        self._added = parse_preferred_terms(added.preferred) if added is not None and added.preferred else None

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        """Parse what the pod requires; if every term names nodes, return those as the only eligible ones."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        if required is None and self._enforced is None and pod.spec.node_selector is None:
            return SKIP
        state[_REQUIRED] = required_node_affinity(pod.spec)
        named = _named_nodes(required)
        return CONFLICT if named is not None and not named else named

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes that do not match: first `addedAffinity`, then the pod's own terms."""
        required = state[_REQUIRED] if _REQUIRED in state else required_node_affinity(pod.spec)
        return nodes.remembered(_rejections, required, self._enforced)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Parse what the pod prefers; a malformed preference ends the cycle."""
        state[_PREFERRED] = preferred = self._preferred(pod)
        return SKIP if preferred is None and self._added is None else None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Add up the weights of the terms that match."""
        preferred = state[_PREFERRED] if _PREFERRED in state else self._preferred(pod)
        return nodes.kept_by_facts(_weights, self._added, preferred)

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the node with the most weight the most points."""
        preferred = state[_PREFERRED] if _PREFERRED in state else self._preferred(pod)
        return nodes.remembered_at(scores, _points, preferred)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a node that matches; in later releases, if it did not before."""
        node = only_new(Node, old, new).metadata
        if self._enforced is not None and not self._enforced.matches(node.labels, node.name):
            return QueueingHint.SKIP
        required = required_node_affinity(pod.spec)
        if not self._is_matched(required, node):
            return QueueingHint.SKIP
        before = old_and_new(Node, old, new)[0]
        return QueueingHint.queue_if(
            before is None or not self._compares or not self._is_matched(required, before.metadata)
        )

    def _is_matched(self, required: RequiredNodeAffinity, node: ObjectMeta) -> bool:
        """Return whether a node matches. Raises PluginError where a malformed term decides."""
        if required.matches(node.labels, node.name):
            return True
        if required.affinity is not None and required.affinity.errors and required.node_selector.matches(node.labels):
            raise PluginError(described(required.affinity.errors, self.handle.rules.wording))
        return False

    def _preferred(self, pod: Pod) -> PreferredSchedulingTerms | None:
        try:
            return preferred_node_affinity(pod.spec)
        except SelectorError as error:
            raise PluginError(error.text(self.handle.rules.wording)) from error


def _rejections(nodes: NodeView, required: RequiredNodeAffinity, enforced: ParsedSelector | None) -> Rejections | None:
    numbers = nodes.kept_by_facts(_mismatches, required, enforced)
    return Rejections.per_value(numbers, [None, NO_MATCH, NOT_ENFORCED]) if numbers.any() else None


def _mismatches(nodes: NodeView, required: RequiredNodeAffinity, enforced: ParsedSelector | None) -> NDArray[np.intp]:
    """Return what each node does not match: 0 for nothing, 1 for what the pod requires, 2 for what is enforced."""
    numbers = np.where(matches_affinity(nodes, required), 0, 1)
    if enforced is not None:
        numbers[~matches_node_selector(nodes, enforced)] = 2
    return numbers


def _weights(nodes: NodeView, *preferences: PreferredSchedulingTerms | None) -> NDArray[np.int64]:
    scores = np.zeros(len(nodes), np.int64)
    for terms in preferences:
        if terms is not None:
            scores += preference(nodes, terms)
    return scores


# The terms only tell apart the scores of pods that are asked about in turn.
def _points(
    _nodes: NodeView, scores: NDArray[np.int64], _preferred: PreferredSchedulingTerms | None
) -> NDArray[np.int64]:
    return scale_to_max(scores)


def _named_nodes(required: NodeSelector | None) -> set[str] | None:
    """Return the only nodes that the terms allow, None if a term names none (PreFilter in node_affinity.go)."""
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        named = [
            set(field.values)
            for field in term.match_fields
            if field.key == NODE_NAME_FIELD and field.operator == Operator.IN
        ]
        if not named:
            return None
        names |= set.intersection(*named)
    return names

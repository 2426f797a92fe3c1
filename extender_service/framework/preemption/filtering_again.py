"""Filter on nodes with other pods than the cluster's: what preemption tries."""

from collections import Counter
from functools import partial

import numpy as np

from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import wrong_needs
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import UNRESTRICTED, Again, filter_nodes, nominated_as_changes
from extender_service.framework.guard import guarded, require_answer, require_time, running
from extender_service.framework.preemption.free_resources import FreeResources
from extender_service.framework.profile import Profile
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod


class FilteringAgain:
    """Runs Filter on nodes with other pods, also on those that PreFilter left out.

    `state.evaluated_again` counts the nodes that each plugin judged so, as kube-scheduler does, which calls each plugin
    for each node. The methods raise CycleError.
    """

    def __init__(self, profile: Profile, state: CycleState, pod: Pod, nominated: Nominated) -> None:
        self._profile = profile
        self._state = state
        self._pod = pod
        self._nominated = nominated
        if state.evaluated_again is None:
            state.evaluated_again = Counter()
        self._evaluations = state.evaluated_again

    def __call__(self, nodes: NodeView, /) -> Verdicts:
        """Return the verdicts on nodes."""
        return self._judged(nodes, Again(self._evaluations, frozenset()))

    def on_passing(self, nodes: NodeView) -> Verdicts:
        """Return the verdicts on nodes that passed with other pods, by the plugins that depend on pods."""
        return self._judged(nodes, Again(self._evaluations, self._profile.filter_regardless_of_pods))

    def free_resources_on(self, nodes: NodeView) -> FreeResources | None:
        """Return what is free on nodes that pass, if Filter depends on nothing else of the pods that there are."""
        profile, state = self._profile, self._state
        known = profile.filter_regardless_of_pods | state.skipped_filters
        dependent = [plugin for plugin in profile.filter if plugin.name not in known]
        if len(dependent) != 1 or dependent[0].name not in profile.filter_by_needs:
            return None
        [plugin] = dependent
        needs = guarded(plugin, "Filter", plugin.needs, state, nodes)
        if needs is None:
            return None
        require_answer(plugin, "Filter", wrong_needs(needs, nodes))
        doing = running(plugin, "Filter")
        joining = nominated_as_changes(nodes, self._nominated)
        return FreeResources(
            nodes,
            needs,
            joining,
            require_time=lambda: require_time(state.clock, state.deadline, doing),
            count=partial(self._count, plugin.name),
        )

    def _count(self, by_needs: str, judged: int, passed: int) -> None:
        """Count the evaluations of nodes that were judged by the needs of a plugin instead of by running plugins."""
        evaluations = judged
        for plugin in self._profile.filter:
            if plugin.name not in self._state.skipped_filters:
                self._evaluations[plugin.name] += evaluations
            if plugin.name == by_needs:
                evaluations = passed

    def _judged(self, nodes: NodeView, again: Again) -> Verdicts:
        everywhere = np.ones(len(nodes), np.bool_)
        profile, state, pod = self._profile, self._state, self._pod
        return filter_nodes(profile, state, pod, nodes, everywhere, UNRESTRICTED, self._nominated, again)


def judge_nominated_node(
    profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, nominated: Nominated
) -> None:
    """If PreFilter has left out the pod's nominated node, give that node Filter's verdict; none if Filter fails there.

    kube-scheduler runs Filter on this node before it looks at PreFilter's nodes (evaluateNominatedNode), and preemption
    depends on the verdict. Raises CycleError.
    """
    position = verdicts.view.position_of(pod.status.nominated_node_name)
    if position < 0 or not verdicts.bring_back(position):
        return
    there = np.array([position])
    judged = FilteringAgain(profile, state, pod, nominated)(verdicts.view.at(there))
    if not judged.passing.any() and judged.first_error() is None:
        verdicts.take_over(judged, there)

"""Preemption: on which nodes a pod fits once pods of lower priority are gone, and which of these pods have to go.

Which of the nodes is best is for candidates.py. The rules are those of kube-scheduler
(framework/preemption/preemption.go, plugins/defaultpreemption); only pods of groups are never chosen. All nodes are
tried in lockstep: one pass puts back the k-th pod of every node, so the number of passes grows with the pods on one
node, not with the number of nodes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.owners.disruption_budgets import violating
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.ranks import order_by, rank_in_group
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.fit_text import counted_reasons, fit_text
from extender_service.framework.interface import Candidate, FilterAgain
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.status import Code, Status, unresolvable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")

Positions = NDArray[np.intp]


class DryRun(msgspec.Struct):
    """The outcome of a dry run: the candidates, in the order of the nodes, and why preemption does not help elsewhere.

    `failed` are statuses, each with the number of nodes that have it.
    """

    candidates: Candidates = NO_CANDIDATES
    failed: list[tuple[Status, int]] = []

    @property
    def errors(self) -> list[str]:
        """Texts of errors, as opposed to preemption not helping; each text once."""
        return list(dict.fromkeys(status.message for status, _ in self.failed if status.code == Code.ERROR))


def ineligible(cluster: Cluster, pod: Pod, verdicts: Verdicts) -> str | None:
    """Return why a pod may not preempt others, or None if it may (PodEligibleToPreemptOthers)."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    position = verdicts.view.position_of(pod.status.nominated_node_name)
    if position >= 0 and verdicts.rejected_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)[position]:
        return None
    if awaits_victims(cluster, pod):
        return "not eligible due to a terminating pod on the nominated node."
    return None


def awaits_victims(cluster: Cluster, pod: Pod) -> bool:
    """Return whether a pod of lower priority on the nominated node was preempted, and has not ended yet."""
    row = cluster.nodes.row_of.get(pod.status.nominated_node_name, -1)
    if row < 0 or not cluster.nodes.exists[row]:
        return False
    pods = cluster.pods
    slots = np.asarray(pods.on_row(row), np.intp)
    return bool((pods.preempted[slots] & (pods.priority[slots] < pod.spec.priority)).any())


def dry_run(
    cluster: Cluster, pod: Pod, nodes: NodeView, filter_again: FilterAgain, given: Collection[int] = ()
) -> DryRun:
    """Find the victims on each node (SelectVictimsOnNode). The pods in the slots `given` are victims in any case.

    Raises CycleError.
    """
    found = _lower_pods(cluster, pod, nodes, given)
    counts = np.bincount(found.positions, minlength=len(nodes))
    result = DryRun()
    tried = counts.nonzero()[0]
    if len(tried) < len(nodes):
        result.failed.append((NO_VICTIMS, len(nodes) - len(tried)))
    if not len(tried):
        return result
    world = nodes.changed(RowChanges(found.positions, found.slots, np.full(len(found.slots), -1)))
    world = _narrowed(world, tried)
    verdicts = filter_again(world)
    result.failed += [(_as_framework_says(status), len(where)) for status, where in verdicts.groups()]
    fitting = verdicts.passing.nonzero()[0]
    if not len(fitting):
        return result
    fits = tried[fitting]
    # Only there, and most pods fit on no node or on few of them, it matters which victims come first.
    potential = _PotentialVictims(cluster, nodes, found if len(fits) == len(nodes) else found.on(fits, len(nodes)))
    must_go = _must_go(potential, fits, _narrowed(world, fitting), filter_again)
    for name in nodes.names_at(fits[~np.isin(fits, potential.positions[must_go])]):
        result.failed.append((Status(Code.ERROR, (f'expected at least one victim pod on node "{name}"',)), 1))
    result.candidates = potential.candidates(nodes, must_go)
    return result


def _must_go(
    potential: "_PotentialVictims", nodes: Positions, world: NodeView, filter_again: FilterAgain
) -> NDArray[np.bool_]:
    """Return which potential victims must go from `nodes`, the only ones that have any.

    `world` shows the nodes without any of them. They are put back one by one, as in kube-scheduler: the order of
    changes matters for host ports. One pass puts back the k-th potential victim of every node, and removes it again if
    the pod does not fit then.
    """
    free, judge = None, filter_again
    if isinstance(filter_again, FilteringAgain):  # a plugin may pass a function of its own, which only judges
        free, judge = filter_again.free_resources_on(world), filter_again.on_passing
    put_back = _Judged(world, judge).put_back if free is None else free.put_back
    returning, numbers, ends = potential.by_turn(nodes)
    slots = potential.slots[returning]
    stays = np.zeros(len(returning), np.bool_)
    begin = 0
    for end in ends:
        stays[begin:end] = put_back(numbers[begin:end], slots[begin:end])
        begin = end
    if free is not None:
        free.count_evaluations()
    must_go = np.ones(len(potential.slots), np.bool_)
    must_go[returning[stays]] = False
    return must_go


class _Judged:
    """Puts pods back on nodes in a hypothetical world, on which Filter runs each time."""

    def __init__(self, world: NodeView, judge: Callable[[NodeView], Verdicts]) -> None:
        self._world = world
        self._judge = judge
        # Where the nodes are in the world; most have gone from it once the pods of most nodes are back.
        self._at = np.arange(len(world))

    def put_back(self, nodes: Positions, slots: Positions) -> NDArray[np.bool_]:
        """Put a pod back on each of some nodes, and return where it stays. Later turns are about no other nodes."""
        world, at = self._world, self._at[nodes]
        if 2 * len(at) <= len(world):
            world = world.at(at)
            at = np.arange(len(at))
            self._at[nodes] = at
        world = world.changed(RowChanges(at, slots, np.ones(len(at), np.int64)))
        stays = self._judge(_narrowed(world, at)).passing
        leaving = (~stays).nonzero()[0]
        if len(leaving):
            world = world.changed(RowChanges(at[leaving], slots[leaving], np.full(len(leaving), -1)))
        self._world = world
        return stays


def _narrowed(nodes: NodeView, positions: Positions) -> NodeView:
    return nodes if len(positions) == len(nodes) else nodes.at(positions)


def given_candidate(cluster: Cluster, pod: Pod, node: NodeView, given: Collection[int]) -> Candidate:
    """Return the candidate for given victims on the only node of a view: in order, and with their budget violations."""
    potential = _PotentialVictims(cluster, node, _lower_pods(cluster, pod, node, given))
    return potential.candidates(node, potential.given)[0]


class _LowerPods(NamedTuple):
    """Pods on some nodes: the slot of each, the position of its node, and whether it is a victim in any case."""

    slots: Positions
    positions: Positions
    given: NDArray[np.bool_]

    def at(self, indices: Positions) -> "_LowerPods":
        return _LowerPods(self.slots[indices], self.positions[indices], self.given[indices])

    def on(self, nodes: Positions, size: int) -> "_LowerPods":
        """Return those on some of `size` nodes."""
        is_on = np.zeros(size, np.bool_)
        is_on[nodes] = True
        return self.at(is_on[self.positions].nonzero()[0])


def _lower_pods(cluster: Cluster, pod: Pod, nodes: NodeView, given: Collection[int]) -> _LowerPods:
    """Return the pods of lower priority on some nodes, without those of groups, and the given ones."""
    pods = cluster.pods
    used = len(pods.facts)
    is_lower = pods.priority[:used] < pod.spec.priority
    if cluster.rules.groups_preempted:
        # The group's priority decides, not theirs, and some go only with their whole group. Groups are not watched.
        is_lower &= ~pods.in_group[:used]
    is_given = np.zeros(used, np.bool_)
    if len(given):  # an array, where a caller names victims
        is_given[list(given)] = True
        is_lower |= is_given
    slots = is_lower.nonzero()[0]
    on = nodes.positions_of_rows(pods.row[slots])
    there = (on >= 0).nonzero()[0]
    slots = slots[there]
    return _LowerPods(slots, on[there], is_given[slots])


class _PotentialVictims:
    """The pods of lower priority on some nodes, and the given ones, node by node in the order of putting them back:
    first those whose budget is used up, then by importance. The arrays have an entry per pod."""

    def __init__(self, cluster: Cluster, nodes: NodeView, found: _LowerPods) -> None:
        pods = cluster.pods
        slots, on, given = found.at(_by_importance(pods, found.slots, found.positions))
        violates = violating(
            cluster.workloads.disruption_budgets,
            pods,
            slots,
            on,
            only_first=cluster.rules.first_violated_budget_counts,
        )
        self._pods = pods
        self._size = len(nodes)
        # Whether victims are to be sorted once more; of equal importance, those of a used up budget are first then.
        self._is_sorted_again = False
        if violates.any():
            order = order_by((1 - violates, on))
            slots, on, given, violates = slots[order], on[order], given[order], violates[order]
            self._is_sorted_again = cluster.rules.victims_by_importance
        self.slots: Positions = slots
        self.positions: Positions = on
        self.violating = violates
        self.given = given

    def by_turn(self, nodes: Positions) -> tuple[Positions, Positions, list[int]]:
        """Return which of them may be put back, turn by turn: in each the next one of every node; the number of its
        node among `nodes` for each; and where each turn ends."""
        returning = (~self.given).nonzero()[0]
        number_of = np.zeros(self._size, np.intp)
        number_of[nodes] = np.arange(len(nodes))
        numbers = number_of[self.positions[returning]]
        turns = rank_in_group(numbers)
        order = order_by((numbers, turns))
        return returning[order], numbers[order], np.cumsum(np.bincount(turns)).tolist()

    def candidates(self, nodes: NodeView, must_go: NDArray[np.bool_]) -> Candidates:
        """Return a candidate for each node with victims; `must_go` marks these."""
        victims = np.flatnonzero(must_go)
        if self._is_sorted_again:
            victims = victims[_by_importance(self._pods, self.slots[victims], self.positions[victims])]
        on = self.positions[victims]
        counts = np.bincount(on, minlength=len(nodes))
        violations = np.bincount(on[self.violating[victims]], minlength=len(nodes))
        found = np.flatnonzero(counts)
        return Candidates(nodes.names_at(found), self.slots[victims], counts[found], violations[found])


def _by_importance(pods: PodTable, slots: Positions, on: Positions) -> Positions:
    """Return the order of pods by node, and on a node by importance (MoreImportantPod); equal ones stay as they are."""
    return order_by((pods.started[slots], -pods.priority[slots], on))


def _as_framework_says(status: Status) -> Status:
    if status.code != Code.ERROR:
        return status
    return Status(Code.ERROR, (f'running "{status.plugin}" filter plugin: {status.message}',))


def fit_error(failed: Iterable[tuple[Status, int]]) -> str:
    """Describe on how many nodes preemption does not help, and why."""
    reasons: Counter[str] = Counter()
    nodes = 0
    for status, count in failed:
        nodes += count
        for reason in status.reasons:
            reasons[reason] += count
    return fit_text(nodes, counted_reasons(reasons))

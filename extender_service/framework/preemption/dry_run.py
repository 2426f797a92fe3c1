"""Preemption: on which nodes a pod fits once pods of lower priority are gone, and which of those nodes is best.

The rules are those of kube-scheduler (framework/preemption/preemption.go, plugins/defaultpreemption). All nodes are
tried in lockstep: one pass puts back the k-th pod of every node, so the number of passes grows with the pods on one
node, not with the number of nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.owners.disruption_budgets import violating
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.ranks import order_by
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.interface import Candidate, FilterAgain
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates
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
    potential = _PotentialVictims(cluster, pod, nodes, given)
    result = DryRun()
    tried = np.flatnonzero(potential.counts)
    if len(tried) < len(nodes):
        result.failed.append((NO_VICTIMS, len(nodes) - len(tried)))
    if not len(tried):
        return result
    # Pods are put back one by one, as in kube-scheduler: the order of changes matters for host ports.
    slots = potential.slots
    world = nodes.changed(RowChanges(potential.positions, slots, np.full(len(slots), -1)))
    world = _narrowed(world, tried)
    verdicts = filter_again(world)
    result.failed += [(_as_framework_says(status), len(where)) for status, where in verdicts.groups()]
    fitting = np.flatnonzero(verdicts.passing)
    if not len(fitting):
        return result
    fits = tried[fitting]
    must_go = _give_back(potential, fits, _narrowed(world, fitting), filter_again)
    for name in nodes.names_at(fits[~np.isin(fits, potential.positions[must_go])]):
        result.failed.append((Status(Code.ERROR, (f'expected at least one victim pod on node "{name}"',)), 1))
    result.candidates = potential.candidates(nodes, must_go)
    return result


def _give_back(
    potential: "_PotentialVictims", nodes: Positions, world: NodeView, filter_again: FilterAgain
) -> NDArray[np.bool_]:
    """Return which potential victims must go from `nodes`; `world` shows the nodes without any of them.

    One pass puts back the k-th potential victim of every node, and removes it again if the pod does not fit then.
    """
    must_go, returning, counts = potential.on(nodes)
    first = np.cumsum(counts) - counts
    for rank in range(int(counts.max())):
        at = np.flatnonzero(counts > rank)
        if 2 * len(at) <= len(world):
            world, first, counts = world.at(at), first[at], counts[at]
            at = np.arange(len(at))
        pods = returning[first[at] + rank]
        slots = potential.slots[pods]
        world = world.changed(RowChanges(at, slots, np.ones(len(at), np.int64)))
        passing = filter_again(_narrowed(world, at)).passing
        must_go[pods[passing]] = False
        taken = np.flatnonzero(~passing)
        if len(taken):
            world = world.changed(RowChanges(at[taken], slots[taken], np.full(len(taken), -1)))
    return must_go


def _narrowed(nodes: NodeView, positions: Positions) -> NodeView:
    return nodes if len(positions) == len(nodes) else nodes.at(positions)


def given_candidate(cluster: Cluster, pod: Pod, node: NodeView, given: Collection[int]) -> Candidate:
    """Return the candidate for given victims on the only node of a view: in order, and with their budget violations."""
    potential = _PotentialVictims(cluster, pod, node, given)
    return potential.candidates(node, potential.given)[0]


class _PotentialVictims:
    """The pods of lower priority on some nodes, and the given ones, node by node in the order of putting them back:
    first those whose budget is used up, then by importance. The arrays have an entry per pod, except `counts`, which
    has one per node."""

    def __init__(self, cluster: Cluster, pod: Pod, nodes: NodeView, given: Collection[int]) -> None:
        pods = cluster.pods
        used = len(pods.facts)
        is_given = np.zeros(used, np.bool_)
        is_given[list(given)] = True
        on = nodes.positions_of_rows(pods.row[:used])
        slots = np.flatnonzero((on >= 0) & ((pods.priority[:used] < pod.spec.priority) | is_given))
        slots = slots[_by_importance(pods, slots, on[slots])]
        violates = violating(
            cluster.workloads.disruption_budgets,
            pods,
            slots,
            on[slots],
            only_first=cluster.rules.first_violated_budget_counts,
        )
        self._pods = pods
        # Whether victims are to be sorted once more; of equal importance, those of a used up budget are first then.
        self._is_sorted_again = False
        if violates.any():
            order = order_by((1 - violates, on[slots]))
            slots, violates = slots[order], violates[order]
            self._is_sorted_again = cluster.rules.victims_by_importance
        self.slots: Positions = slots
        self.positions: Positions = on[slots]
        self.violating = violates
        self.given = is_given[slots]
        self.counts = np.bincount(self.positions, minlength=len(nodes))

    def on(self, nodes: Positions) -> tuple[NDArray[np.bool_], Positions, Positions]:
        """Return which of them are on some of the nodes, which of those may be put back, and how many of the latter
        each of these nodes has."""
        is_on = np.zeros(len(self.counts), np.bool_)
        is_on[nodes] = True
        there = is_on[self.positions]
        returning = np.flatnonzero(there & ~self.given)
        return there, returning, np.bincount(self.positions[returning], minlength=len(self.counts))[nodes]

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
    """Describe on how many nodes preemption does not help, and why (FitError in framework/types.go)."""
    reasons: Counter[str] = Counter()
    nodes = 0
    for status, count in failed:
        nodes += count
        for reason in status.reasons:
            reasons[reason] += count
    text = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:" + (f" {text}." if text else "")

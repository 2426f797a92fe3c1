"""Preemption: on which nodes a pod fits once pods of lower priority are gone, and which of those nodes is best.

The rules are those of kube-scheduler (framework/preemption/preemption.go, plugins/defaultpreemption). All nodes are
tried in lockstep: the k-th pod of every node is given back in one pass, so that the number of passes grows with the
pods on one node, not with the nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.disruption_budgets import rank_in_group, violating
from extender_service.cluster.pods import PodTable
from extender_service.cluster.view import NodeView, RowChanges
from extender_service.framework.interface import FilterAgain
from extender_service.framework.status import Code, Status, unresolvable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.objects import Pod

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")

Positions = NDArray[np.intp]


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod fits once the pods in the slots `victims` are gone; the order is the reference's."""

    node_name: str
    victims: tuple[int, ...]
    pdb_violations: int


class DryRun(msgspec.Struct):
    """What trying some nodes showed, in their order: where preemption helps, and why not elsewhere.

    `failed` are statuses with the number of nodes that have them.
    """

    candidates: list[Candidate] = []
    failed: list[tuple[Status, int]] = []

    @property
    def errors(self) -> list[str]:
        """What went wrong, as opposed to preemption not helping; each text once."""
        return list(dict.fromkeys(status.message for status, _ in self.failed if status.code == Code.ERROR))


def ineligible(cluster: Cluster, pod: Pod, verdicts: Verdicts) -> str | None:
    """Return why a pod may not preempt others, or None if it may (PodEligibleToPreemptOthers)."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    row = cluster.nodes.row_of.get(pod.status.nominated_node_name, -1)
    if row < 0 or not cluster.nodes.exists[row]:
        return None
    position = verdicts.view.position_of(pod.status.nominated_node_name)
    if position >= 0 and verdicts.rejected_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)[position]:
        return None
    pods = cluster.pods
    slots = np.asarray(pods.on_row(row), np.intp)
    if (pods.preempted[slots] & (pods.priority[slots] < pod.spec.priority)).any():
        return "not eligible due to a terminating pod on the nominated node."
    return None


def dry_run(
    cluster: Cluster, pod: Pod, nodes: NodeView, filter_again: FilterAgain, given: Collection[int] = ()
) -> DryRun:
    """Find the victims on each node (SelectVictimsOnNode). The pods in the slots `given` are victims in any case.

    Raises CycleError.
    """
    potential = _PotentialVictims(cluster, pod, nodes, given)
    positions, slots = potential.positions, potential.slots
    # Giving back replays what kube-scheduler does, pod by pod: the order of changes matters for host ports.
    world = nodes.changed(RowChanges(positions, slots, np.full(len(slots), -1)))
    tried = np.flatnonzero(np.bincount(positions, minlength=len(nodes)))
    result = DryRun()
    if len(tried) < len(nodes):
        result.failed.append((NO_VICTIMS, len(nodes) - len(tried)))
    verdicts = filter_again(world.at(tried))
    result.failed += [(_as_framework_says(status), len(where)) for status, where in verdicts.groups()]
    fits = np.zeros(len(nodes), np.bool_)
    fits[tried[verdicts.passing]] = True
    gone = fits[positions]
    for rank in range(int(potential.ranks.max(initial=-1)) + 1):
        # The given ones are not given back.
        at_rank = np.flatnonzero((potential.ranks == rank) & fits[positions] & ~potential.given)
        if not len(at_rank):
            continue
        where, back = positions[at_rank], slots[at_rank]
        world = world.changed(RowChanges(where, back, np.ones(len(back), np.int64)))
        passing = filter_again(world.at(where)).passing
        gone[at_rank[passing]] = False
        world = world.changed(RowChanges(where[~passing], back[~passing], np.full(np.count_nonzero(~passing), -1)))
    names = nodes.names
    first = np.searchsorted(positions, np.arange(len(nodes) + 1))
    for position in np.flatnonzero(fits).tolist():
        here = slice(first[position], first[position + 1])
        victims = slots[here][gone[here]].tolist()
        if victims:
            violations = int(np.count_nonzero(potential.violating[here] & gone[here]))
            result.candidates.append(Candidate(names[position], tuple(victims), violations))
        else:
            result.failed.append(
                (Status(Code.ERROR, (f'expected at least one victim pod on node "{names[position]}"',)), 1)
            )
    return result


def given_candidate(cluster: Cluster, pod: Pod, node: NodeView, given: Collection[int]) -> Candidate:
    """Return a node, the only one of its view, with victims that are settled: in order, and with their violations."""
    potential = _PotentialVictims(cluster, pod, node, given)
    violations = int(np.count_nonzero(potential.violating & potential.given))
    return Candidate(node.names[0], tuple(potential.slots[potential.given].tolist()), violations)


class _PotentialVictims:
    """The pods of lower priority on some nodes, and those given, node by node in the order of giving them back: those
    whose budget is used up first, then by importance. Arrays of one length; `ranks` count the pods of a node."""

    def __init__(self, cluster: Cluster, pod: Pod, nodes: NodeView, given: Collection[int]) -> None:
        pods = cluster.pods
        position_of_row = np.full(cluster.nodes.capacity + 1, -1, np.intp)
        position_of_row[nodes.rows] = np.arange(len(nodes))
        used = len(pods.facts)
        is_given = np.zeros(used, np.bool_)
        is_given[list(given)] = True
        # Pods on no row pick the last entry.
        on = position_of_row[pods.row[:used]]
        slots = np.flatnonzero((on >= 0) & ((pods.priority[:used] < pod.spec.priority) | is_given))
        slots = slots[np.lexsort((pods.started[slots], -pods.priority[slots], on[slots]))]
        violates = violating(cluster.workloads.disruption_budgets, pods, slots, on[slots])
        order = np.lexsort((~violates, on[slots]))
        self.slots: Positions = slots[order]
        self.positions: Positions = on[self.slots]
        self.violating = violates[order]
        self.given = is_given[self.slots]
        self.ranks = rank_in_group(self.positions)


def _as_framework_says(status: Status) -> Status:
    if status.code != Code.ERROR:
        return status
    return Status(Code.ERROR, (f'running "{status.plugin}" filter plugin: {status.message}',))


def best_candidates(pods: PodTable, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that no criterion tells from the best one (pickOneNodeForPreemption).

    The fewest violations of budgets; the lowest priority of the first victim; the lowest sum of priorities; the fewest
    victims; the latest start of the victim of highest priority that started first.
    """
    ranks = [_rank(pods, candidate) for candidate in candidates]
    best = min(ranks)
    return [candidate for candidate, rank in zip(candidates, ranks, strict=True) if rank == best]


def _rank(pods: PodTable, candidate: Candidate) -> tuple[int, ...]:
    victims = np.asarray(candidate.victims, np.intp)
    priorities = pods.priority[victims]
    total = int((priorities + 2**31).sum())
    earliest = int(pods.started[victims][priorities == priorities.max()].min())
    return candidate.pdb_violations, int(priorities[0]), total, len(victims), -earliest


def sampled(candidates: Iterable[Candidate], count: int) -> list[Candidate]:
    """Return the candidates that trying one node after the other finds until `count` are enough (DryRunPreemption).

    They are enough only with one among them that violates no budget; those that violate none come first.
    """
    sound: list[Candidate] = []
    violating_budgets: list[Candidate] = []
    for candidate in candidates:
        (violating_budgets if candidate.pdb_violations else sound).append(candidate)
        if sound and len(sound) + len(violating_budgets) >= count:
            break
    return sound[:count] + violating_budgets[:count]


def fit_error(failed: Iterable[tuple[Status, int]]) -> str:
    """Say on how many nodes preemption does not help, and why (FitError in framework/types.go)."""
    reasons: Counter[str] = Counter()
    nodes = 0
    for status, count in failed:
        nodes += count
        for reason in status.reasons:
            reasons[reason] += count
    text = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:" + (f" {text}." if text else "")

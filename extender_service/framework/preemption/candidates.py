"""Nodes where preemption helps, and how the best of them is found (framework/preemption/preemption.go)."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.pods.pod_entries import NOT_STARTED
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.config.rules import Rules
from extender_service.framework.interface import Candidate
from extender_service.framework.status import Code, Status

# What is added to priorities, so that the sum grows with the number of pods (math.MaxInt32 + 1).
_ABOVE_LEAST_PRIORITY = 2**31


class Candidates:
    """Candidates as columns: `names`, `pdb_violations` and `counts` of victims have one entry per candidate.

    `victims` are the slots of all victims, candidate by candidate, at least one for each; `first` is where those of
    each candidate begin.
    """

    __slots__ = ("counts", "first", "names", "pdb_violations", "victims")

    def __init__(
        self,
        names: Sequence[str],
        victims: NDArray[np.intp],
        counts: NDArray[np.intp],
        pdb_violations: NDArray[np.intp],
    ) -> None:
        self.names = names
        self.victims = victims
        self.counts = counts
        self.pdb_violations = pdb_violations
        self.first = np.cumsum(counts) - counts

    @classmethod
    def joined(cls, parts: "Sequence[Candidates]") -> "Candidates":
        """Return the candidates of all parts, in their order."""
        return cls(
            list(chain.from_iterable(part.names for part in parts)),
            np.concatenate([part.victims for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.pdb_violations for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Candidate:
        first, count = int(self.first[index]), int(self.counts[index])
        victims = self.victims[first : first + count].tolist()
        return Candidate(self.names[index], tuple(victims), int(self.pdb_violations[index]))

    def __iter__(self) -> Iterator[Candidate]:
        return (self[index] for index in range(len(self)))

    def at(self, indices: NDArray[np.intp]) -> "Candidates":
        """Return the candidates at some indices, in that order."""
        counts = self.counts[indices]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return Candidates(
            [*map(self.names.__getitem__, indices.tolist())],
            self.victims[np.repeat(self.first[indices], counts) + within],
            counts,
            self.pdb_violations[indices],
        )


NO_CANDIDATES = Candidates((), np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.intp))


def best_candidates(pods: PodTable, candidates: Candidates) -> Candidates:
    """Return the best candidates, which are equal by all criteria (pickOneNodeForPreemption); needs at least one.

    The criteria, in order: fewest budget violations; lowest priority of the first victim; lowest sum of priorities;
    fewest victims; latest start of the earliest-started victim among those of highest priority.
    """
    left = _least(candidates, candidates.pdb_violations)
    left = _least(left, pods.priority[left.victims[left.first]])
    left = _least(left, np.add.reduceat(pods.priority[left.victims] + _ABOVE_LEAST_PRIORITY, left.first))
    left = _least(left, left.counts)
    return _least(left, -_earliest_start(pods, left))


def found_room(best: Candidate, rules: Rules) -> Status:
    """Return the status of a PostFilter that found a candidate."""
    if not rules.preemption_described:
        return Status(Code.SUCCESS)
    room = f"found a potential placement for pod on node {best.node_name}, preempting {len(best.victims)} victims"
    return Status(Code.SUCCESS, (f"preemption: {room}",))


def sampled(candidates: Candidates, count: int) -> Candidates:
    """Return the candidates that kube-scheduler finds by trying nodes in turn until it has `count` (DryRunPreemption).

    It stops there only if one of them violates no budget. Those that violate none come first.
    """
    sound = np.flatnonzero(candidates.pdb_violations == 0)
    found = max(count, int(sound[0]) + 1) if len(sound) else len(candidates)
    violating = np.flatnonzero(candidates.pdb_violations[:found])
    return candidates.at(np.concatenate([sound[sound < found][:count], violating[:count]]))


def _least(candidates: Candidates, criterion: NDArray[np.int64]) -> Candidates:
    least = np.flatnonzero(criterion == criterion.min())
    return candidates if len(least) == len(candidates) else candidates.at(least)


def _earliest_start(pods: PodTable, candidates: Candidates) -> NDArray[np.int64]:
    """Return when the earliest-started victim of highest priority started, for each candidate."""
    priorities = pods.priority[candidates.victims]
    highest = np.repeat(np.maximum.reduceat(priorities, candidates.first), candidates.counts)
    started = np.where(priorities == highest, pods.started[candidates.victims], NOT_STARTED)
    earliest: NDArray[np.int64] = np.minimum.reduceat(started, candidates.first)
    return earliest

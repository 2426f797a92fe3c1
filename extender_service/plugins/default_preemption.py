"""DefaultPreemption: makes room by deleting pods of lower priority."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.args import PluginArgs
from extender_service.config.model import Int32Field
from extender_service.config.problems import Problem, invalid, out_of_range
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import FilterAgain, PostFilter, PostFilterResult, PreEnqueue
from extender_service.framework.preemption.candidates import (
    NO_CANDIDATES,
    Candidates,
    best_candidates,
    found_room,
    sampled,
)
from extender_service.framework.preemption.dry_run import (
    NOT_HELPFUL,
    DryRun,
    dry_run,
    fit_error,
    ineligible,
)
from extender_service.framework.status import Code, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Object, Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.policy import PodDisruptionBudget

WAITING = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemptionArgs(PluginArgs):
    """How many nodes DefaultPreemption looks at: the larger of a percentage and a number."""

    kind: Literal["DefaultPreemptionArgs"] = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: Int32Field = 10
    min_candidate_nodes_absolute: Int32Field = 100

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that at least one node is looked at (ValidateDefaultPreemptionArgs)."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield out_of_range(percentage_path, percentage, "[0, 100]")
        if absolute < 0:
            yield out_of_range(absolute_path, absolute, "[0, inf)")
        if percentage == absolute == 0:
            yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


class DefaultPreemption(PostFilter, PreEnqueue):
    """Nominates a pod for the node where the least harm is done by deleting pods of lower priority.

    While victims are deleted in the background, it keeps the pod out of the queue.
    """

    name: ClassVar[str] = "DefaultPreemption"
    args_type: ClassVar[type | None] = DefaultPreemptionArgs
    reads: ClassVar[frozenset[type[Object]]] = frozenset({PodDisruptionBudget})
    args: DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # The queue must hear of pods that go, also about a pod that waits for its preemption.
        self.retry_on = (ClusterEvent(POD, ActionType.DELETE),) if handle.rules.preemption_in_background else ()

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points: PreEnqueue, too, in releases that preempt in the background."""
        return {"preEnqueue", "postFilter"} if rules.preemptors_gated else {"postFilter"}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep a pod waiting while its victims are deleted."""
        return WAITING if self.handle.preemptions.is_running(pod_uid(pod)) else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Leave it to the plugins that rejected the pod whether a deletion helps."""
        del event, pod, old, new
        return QueueingHint.SKIP

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        """Find the node and the victims (Evaluator.Preempt)."""
        state.tried_preemption = True
        message = ineligible(self.handle.cluster, pod, verdicts)
        if message is not None:
            return PostFilterResult(unschedulable(f"preemption: {message}"))
        nodes = verdicts.view
        if not nodes.exists.any():
            return PostFilterResult(_failed("no nodes available"))
        hopeful = np.flatnonzero(verdicts.rejected_with(Code.UNSCHEDULABLE) & nodes.exists)
        try:
            tried = self._try(pod, nodes, hopeful, filter_again)
        except OutOfTimeError:
            raise  # it names the Filter plugin
        except CycleError as error:
            return PostFilterResult(_failed(str(error)))
        if not len(tried.candidates):
            if tried.errors:
                return PostFilterResult(_failed(_joined(tried.errors)))
            message = self._fit_error(tried, int(np.count_nonzero(nodes.exists)), len(hopeful))
            return PostFilterResult(unschedulable(f"preemption: {message}"), clears_nomination=True)
        best = self.handle.random.choice(best_candidates(self.handle.cluster.pods, tried.candidates))
        status = found_room(best, self.handle.rules)
        return PostFilterResult(status, best.node_name, best.victims, candidates=tried.candidates)

    def _try(self, pod: Pod, nodes: NodeView, hopeful: NDArray[np.intp], filter_again: FilterAgain) -> DryRun:
        """Try nodes, from a random one on, until there are enough candidates."""
        tried = DryRun()
        if not len(hopeful):
            return tried
        order = np.roll(hopeful, -self.handle.random.randrange(len(hopeful)))
        wanted = self._candidates_wanted(len(order))
        found = NO_CANDIDATES
        begin, size = 0, max(wanted, 1)
        while begin < len(order):
            part = dry_run(self.handle.cluster, pod, nodes.at(order[begin : begin + size]), filter_again)
            tried.failed += part.failed
            if len(part.candidates):
                found = Candidates.joined([found, part.candidates]) if len(found) else part.candidates
                tried.candidates = sampled(found, wanted)
            if len(tried.candidates) >= wanted and not tried.candidates.pdb_violations.all():
                break
            # Where so many nodes have no candidate, mostly none has.
            begin, size = begin + size, 2 * size if len(part.candidates) else len(order)
        return tried

    def _fit_error(self, tried: DryRun, nodes: int, hopeful: int) -> str:
        """Describe why no node is a candidate, given how many nodes there are, and how many were tried.

        Where no candidate is wanted, as a small percentage of few nodes is none, the nodes where preemption would help
        have no status. v1.31 leaves them out.
        """
        counts_all = self.handle.rules.left_out_nodes_counted
        others = nodes - (sum(count for _, count in tried.failed) if counts_all else hopeful)
        return fit_error([*tried.failed, (NOT_HELPFUL, others)] if others else tried.failed)

    def _candidates_wanted(self, nodes: int) -> int:
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return int(min(nodes, max(share, self.args.min_candidate_nodes_absolute)))


def _failed(message: str) -> Status:
    return Status(Code.ERROR, (f"preemption: {message}",))


def _joined(errors: Sequence[str]) -> str:
    """Join errors into one text, as k8s.io/apimachinery/pkg/util/errors does."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"

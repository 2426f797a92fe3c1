"""The filter verb: which nodes a pod may go to; in `replace` mode, the one it is to go to."""

import asyncio
import math
import time
from collections import Counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.cluster import pod_uid
from extender_service.cluster.events import ClusterEvent
from extender_service.extender.bind import Binder
from extender_service.extender.calls import HungUp
from extender_service.extender.candidates import Candidates
from extender_service.extender.decider import Decided
from extender_service.extender.service import ExtenderService, pod_name
from extender_service.extender.wire import ExtenderArgs, ExtenderFilterResult, ResultNodeList
from extender_service.framework.binding import BindingCycle
from extender_service.framework.interface import NoTimeLeftError
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import CycleError, Decision, OutOfTimeError
from extender_service.framework.status import Code
from extender_service.kube.objects import Pod

UNKNOWN_NODE = "node(s) not known to extender-service yet"
# Of one answer. kube-scheduler keeps such texts, too; they quote what the pod asks for, once for each node.
_MOST_REASON_CHARACTERS = 32 << 20


class FilterOutcome(msgspec.Struct):
    """The answer, and what there is to tell about it.

    `passing` are the indexes of the whole nodes in the answer, where all that pass are.
    """

    result: ExtenderFilterResult
    asked: int
    passed: int
    reasons: Counter[str]
    node_name: str = ""
    looked_again: bool = False
    ahead: bool = False
    passing: NDArray[np.intp] | None = None


async def filter_nodes(
    service: ExtenderService,
    binder: Binder,
    pod: Pod,
    args: ExtenderArgs,
    hung_up: HungUp,
    deadline: float = math.inf,
) -> FilterOutcome:
    """Answer which nodes pass.

    In `replace` mode one of them is chosen. Unless the caller has hung up, the profile's Reserve runs for it, and the
    pod is expected there.
    Raises CycleError, DecodeError or QuantityError for what cannot be decided by the `deadline`.
    """
    if service.leadership is not None:
        await service.leadership.wait()
    service.require_trust()
    profile = service.profile_for(pod)
    service.cluster.expire()
    if args.nodes is not None:
        service.tell_of_whole_nodes()
    held = await _held_by_binding(service, binder, pod, args, deadline)
    if held is not None:
        return held
    service.cluster.drop_placement(pod_uid(pod))
    (found, decision, ahead), looked_again = await _decide(service, profile, pod, args, deadline)
    _require_last_call(service, binder, pod)
    passed = len(decision.feasible)
    if service.mode == "replace" and passed:
        outcome = _one(found, decision.choose(), passed)
        # Nothing is awaited from the decision on: another call must not be given the same room.
        if service.is_live and not _is_bound(service, pod) and not hung_up():
            cycle = BindingCycle(profile, decision.state, pod, outcome.node_name)
            cycle.reserve()
            service.cluster.placements.expect(pod, pod_uid(pod), outcome.node_name, cycle.unreserve, cycle)
            service.decider.note_placed(profile, pod, args)
    else:
        outcome = _all(found, decision)
    outcome.looked_again = looked_again
    outcome.ahead = ahead
    return outcome


def _is_bound(service: ExtenderService, pod: Pod) -> bool:
    known = service.cluster.pod(pod_uid(pod))
    return known is not None and bool(known.node_name)


async def _held_by_binding(
    service: ExtenderService, binder: Binder, pod: Pod, args: ExtenderArgs, deadline: float
) -> FilterOutcome | None:
    """Answer with the node that the pod is being bound to, or was bound to without our watch showing it yet.

    Where that node is not among those asked, the binding must come to nothing first. Raises CycleError if it did not.
    """
    placement = service.cluster.placements.get(pod_uid(pod))
    if placement is None or not placement.assumed:
        if binder.is_under_way(pod_uid(pod)):
            raise CycleError(f"pod {pod_name(pod)} is being bound")
        return None
    found = service.candidates.find(args)
    position = found.view.position_of(placement.node_name)
    if position >= 0 and found.asked[position]:
        return _one(found, position, 1)
    binder.undo(pod_uid(pod))
    try:
        async with asyncio.timeout(None if deadline == math.inf else deadline - time.monotonic()):
            bound_to = await binder.settle(pod_uid(pod))
    except TimeoutError as error:
        raise OutOfTimeError(f"finding out whether pod {pod_name(pod)} is bound: {NoTimeLeftError()}") from error
    if bound_to is not None:
        raise CycleError(f"pod {pod_name(pod)} is already bound to {bound_to}")
    _require_last_call(service, binder, pod)
    return None


def _require_last_call(service: ExtenderService, binder: Binder, pod: Pod) -> None:
    """Raise CycleError if another call about the pod came while this one waited: what that one did counts."""
    uid = pod_uid(pod)
    if service.cluster.placements.get(uid) is not None or binder.is_under_way(uid):
        raise CycleError(f"pod {pod_name(pod)} was asked about again in the meantime")


async def _decide(
    service: ExtenderService, profile: Profile, pod: Pod, args: ExtenderArgs, deadline: float
) -> tuple[Decided, bool]:
    """Decide; before refusing every node, wait a moment for the watch and decide again, whole; returns if it did."""
    decided = service.decider.decide(profile, pod, args, deadline)
    if len(decided.decision.feasible) or not _may_look_again(service, pod, decided.found):
        return decided, False
    give_up_at = service.clock() + min(service.wait_budget.allowance(), deadline - time.monotonic())
    looked_again = False
    while not len(decided.decision.feasible):
        started = service.clock()
        if started >= give_up_at:
            break
        looked_again = True
        came = await service.cluster.events.wait(
            _helpful(profile, decided.found, decided.decision), give_up_at - started
        )
        service.wait_budget.spend(service.clock() - started)
        if not came:
            break
        decided = service.decider.decide(profile, pod, args, deadline)
    return decided, looked_again


def _may_look_again(service: ExtenderService, pod: Pod, found: Candidates) -> bool:
    asks_only_nominated = len(found.names) == 1 and found.names[0] == pod.status.nominated_node_name
    return service.is_live and len(found.names) > 0 and not asks_only_nominated


def _helpful(profile: Profile, found: Candidates, decision: Decision) -> ClusterEvent:
    """The changes that could make one of the plugins that refused pass a node."""
    events = ClusterEvent.NODE_ADDED if found.unknown else ClusterEvent(0)
    refusing = decision.verdicts.rejecting_plugins()
    for plugin in profile.filter:
        if plugin.name in refusing:
            events |= plugin.retry_on
    return events or ClusterEvent.ANY


def _one(found: Candidates, position: int, passed: int) -> FilterOutcome:
    name = found.view.name_at(position)
    if found.items is None:
        result = ExtenderFilterResult(node_names=[name])
    else:
        result = ExtenderFilterResult(nodes=ResultNodeList([found.items[found.index_of(position)]]))
    return FilterOutcome(result, len(found.names), passed, Counter(), name)


def _all(found: Candidates, decision: Decision) -> FilterOutcome:
    verdicts = decision.verdicts
    failed: dict[str, str] = {}
    unresolvable = dict.fromkeys(found.unknown, UNKNOWN_NODE)
    reasons: Counter[str] = Counter()
    if unresolvable:
        reasons[UNKNOWN_NODE] = len(unresolvable)
    characters = 0
    for status, positions in verdicts.groups():
        message = status.message
        characters += len(message) * len(positions)
        if characters > _MOST_REASON_CHARACTERS:
            raise CycleError(
                f"the reasons against {len(positions)} nodes have {len(message)} characters for each, too many "
                f"to answer: {message[:200]}…"
            )
        into = unresolvable if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed
        into.update(dict.fromkeys(found.view.names_at(positions), message))
        for reason in status.reasons:
            reasons[reason] += len(positions)
    passing = found.passing(verdicts.passing)
    result = ExtenderFilterResult(
        nodes=None if found.items is None else ResultNodeList([found.items[index] for index in passing.tolist()]),
        node_names=found.view.names_at(found.positions[passing]) if found.items is None else None,
        failed_nodes=failed,
        failed_and_unresolvable_nodes=unresolvable,
    )
    return FilterOutcome(
        result, len(found.names), len(passing), reasons, passing=None if found.items is None else passing
    )

"""One attempt to find a node for a pod: the scheduling cycle (schedulePod and schedulingCycle in schedule_one.go)."""

from collections.abc import Sequence

import msgspec

from extender_service.cluster.state.placements import Placement
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.status import Code
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod
from extender_service.scheduler.eviction import Victim
from extender_service.scheduler.failure import NO_NODES_AVAILABLE, Failure
from extender_service.scheduler.fit_error import FitError, fit_error_of
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question


class Preemption(msgspec.Struct, frozen=True):
    """Room that is to be made for a pod: `failure` is what its attempt ends with once the victims are deleted.

    `without_room` is the error that the attempt ends with if that fails, but for its reason.
    """

    node_name: str
    victims: Sequence[Victim]
    failure: Failure
    fit_error: FitError


Outcome = Placement | Preemption | Failure


def attempt(engine: Engine, pod: Pod) -> Outcome:
    """Find a node for a pod: reserve one, with Permit run, or return room to make for it, or the failure."""
    if not engine.cluster.node_count:
        return NO_NODES_AVAILABLE
    try:
        decision = _decide(engine, pod)
        if not len(decision.feasible):
            return _make_room(engine, decision)
        node_name = decision.question.nodes.view.name_at(decision.choose())
        placement = engine.place(pod, node_name, decision)
        engine.permit(placement)
    except (CycleError, QuantityError) as error:
        return Failure.of(error)
    return placement


def _decide(engine: Engine, pod: Pod) -> Decision:
    """Decide about all nodes, unless the nominated node is feasible: then there is no other."""
    nominated = pod.status.nominated_node_name
    if nominated and engine.cluster.nodes.is_node(nominated):
        try:
            decision = engine.decide(_question(pod, engine, [nominated]))
        except CycleError:
            pass  # kube-scheduler logs it, and looks at all nodes
        else:
            if len(decision.feasible):
                return decision
    return engine.decide(_question(pod, engine, None))


def _question(pod: Pod, engine: Engine, names: list[str] | None) -> Question:
    nodes = engine.nodes.all() if names is None else engine.nodes.named_once(names)
    return Question(pod, nodes, refuses_unsupported=True)


def _make_room(engine: Engine, decision: Decision) -> Preemption | Failure:
    """Run PostFilter, and return what follows."""
    nodes = engine.cluster.node_count
    if not decision.profile.post_filter:
        return Failure.unfit(fit_error_of(decision, nodes), nomination=None)
    result = engine.make_room(decision.question, decision)
    error = fit_error_of(decision, nodes)
    if result.status.code == Code.SUCCESS and result.victims:
        return _preemption(engine, error, result)
    error = msgspec.structs.replace(error, post_filter=result.status.message)
    if result.status.code == Code.SUCCESS:
        return Failure.unfit(error, nomination=result.node_name)
    return Failure.unfit(error, nomination="" if result.clears_nomination else None)


def _preemption(engine: Engine, error: FitError, result: PostFilterResult) -> Preemption:
    facts = [engine.cluster.pods[slot] for slot in result.victims]
    victims = [Victim(pod.namespace, pod.name, pod.uid) for pod in facts]
    failure = Failure.unfit(error, nomination=result.node_name)
    return Preemption(result.node_name, victims, failure, error)

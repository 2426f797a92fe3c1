"""What is counted, by name."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, get_args

from extender_service.extender.modes import Mode
from extender_service.extender.reporting.observation import Verb
from tests.counted.calls import Order, call, call_decided_ahead, call_with_nominated
from tests.counted.decisions import catching_up, decision, dry_run_of_preemption
from tests.counted.events import PodEvent, heartbeat, pod_event
from tests.counted.failing import Waiting, attempt
from tests.counted.loop import Step, step, step_unlike
from tests.counted.releases import CLASSES

VICTIMS = (10, 20, 40)
_ROOM = (1000, 2000)  # nodes: pods that keep apart take one each, and runs of pods end sooner where there are few
_CALLS: tuple[tuple[Mode, Verb], ...] = (("replace", "filter"), ("beside", "filter"), ("beside", "prioritize"))

_PER_NODE: Mapping[Order, str] = {"the same": "", "a new": "each name is looked up"}


class Case(NamedTuple):
    """`count` is told the number of nodes, and called for each of `sizes`.

    `per_node` says why some Python runs for each node; elsewhere none may.
    """

    count: Callable[[int], int]
    sizes: Sequence[int] = (100, 1000)
    per_node: str = ""


def dry_run(victims: int) -> str:
    """The name of the case with so many victims on each node."""
    return f"dry run of preemption, {victims} victims a node"


CASES: Mapping[str, Case] = {
    **{f"decision, {pod_class}": Case(partial(decision, pod_class)) for pod_class in CLASSES},
    "catching up after a decision": Case(catching_up),
    **{
        f"{mode} {verb}, names in {order} order": Case(partial(call, mode, verb, order), per_node=_PER_NODE[order])
        for order in get_args(Order)
        for mode, verb in _CALLS
    },
    "replace filter, decided ahead": Case(call_decided_ahead),
    "replace filter, a nominated pod on each node": Case(call_with_nominated),
    **{f"event, a pod {which}": Case(partial(pod_event, which)) for which in get_args(PodEvent)},
    "event, a node's heartbeat": Case(heartbeat),
    **{f"loop of schedule, a pod {which}": Case(partial(step, which)) for which in get_args(Step)},
    **{
        f"loop of schedule, {pod_class}, a pod placed": Case(partial(step, "placed", pod_class=pod_class), _ROOM)
        for pod_class in ("plain-rs", "node-affinity", "spread", "anti-affinity", "pref-pod-affinity")
    },
    **{
        f"loop of schedule, {pod_class}, no two alike, a pod placed": Case(
            partial(step_unlike, "placed", pod_class=pod_class), _ROOM
        )
        for pod_class in ("plain", "plain-rs", "anti-affinity")
    },
    **{
        # Preemption tries a sample of the nodes first, and of 100 nodes all.
        f"loop of schedule, a pod {which}": Case(partial(attempt, which), (200, 1000))
        for which in get_args(Waiting)
    },
    dry_run(VICTIMS[0]): Case(partial(dry_run_of_preemption, VICTIMS[0]), per_node="a candidate is made of each"),
    **{dry_run(victims): Case(partial(dry_run_of_preemption, victims), (100,)) for victims in VICTIMS[1:]},
}

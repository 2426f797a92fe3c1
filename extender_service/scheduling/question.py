"""A question to the engine."""

import math

import msgspec

from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AskedNodes


class Question(msgspec.Struct, frozen=True, gc=False):
    """May `pod` run on `nodes`, and if it `must_score`, how good is each of them?

    After the `deadline`, in seconds of the profile's clock, the answer is an error. Nominated pods count on their
    nodes, except where the node was `chosen_elsewhere`: another scheduler has judged it then, nominated pods included.
    With `refuses_unsupported`, the answer is no for a pod with a field that no plugin judges (see unsupported.py): for
    callers that have no other scheduler beside them which does.
    """

    pod: Pod
    nodes: AskedNodes
    deadline: float = math.inf
    must_score: bool = True
    refuses_unsupported: bool = False
    chosen_elsewhere: bool = False

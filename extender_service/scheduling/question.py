"""A question to the engine."""

import math

import msgspec

from extender_service.framework.runtime import SampleNodes
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AskedNodes


class Question(msgspec.Struct, frozen=True, gc=False):
    """Asks whether `pod` may run on each of `nodes` and, with `must_score`, how good each of them is.

    After the `deadline`, in seconds of the profile's clock, the answer is an error. Nominated pods count on their
    nodes, unless the node was `chosen_elsewhere`: then another scheduler has judged it, nominated pods included.
    With `refuses_unsupported`, a pod with a field that no plugin judges is refused (see unsupported.py). This is for
    callers without another scheduler that judges such fields. `sample_nodes` forgets the verdicts on nodes beyond
    percentageOfNodesToScore. If the node `is_nominated`, Filter judges it even where PreFilter names other nodes.
    """

    pod: Pod
    nodes: AskedNodes
    deadline: float = math.inf
    must_score: bool = True
    refuses_unsupported: bool = False
    chosen_elsewhere: bool = False
    sample_nodes: SampleNodes | None = None
    is_nominated: bool = False

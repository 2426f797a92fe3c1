"""The prioritize verb: how good each feasible node is."""

import math

import numpy as np

from extender_service.extender.expectations import Expectations
from extender_service.extender.modes import Policy
from extender_service.extender.trust import Trust
from extender_service.extender.wire.priorities import Priorities
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import ExtenderArgs
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.explanation import Grounds
from extender_service.scheduling.question import Question


class PrioritizeVerb:
    """Scores the nodes of a request."""

    def __init__(
        self, engine: Engine, nodes: RequestedNodes, trust: Trust, expectations: Expectations, policy: Policy
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._trust = trust
        self._expectations = expectations
        self._policy = policy

    def __call__(self, pod: Pod, args: ExtenderArgs, deadline: float = math.inf) -> Priorities:
        """Score the nodes of a request, in their order; an unknown node scores 0.

        Scores are 0..10 in `beside`, and the weighted totals of the Score plugins in `replace`.
        Raises CycleError, DecodeError or QuantityError if scoring is not possible, or not by the `deadline`.
        """
        self._trust.require()
        self._expectations.expire()
        asked = self._nodes.find(args)
        scores = self._engine.score(Question(pod, asked, deadline))
        max_total = self._engine.profiles.of(pod).max_total
        names, positions, scored = asked.names, asked.positions, asked.in_question.nonzero()[0]
        # One more score, the 0 of unknown nodes: their position is -1.
        by_position = np.zeros(len(asked.in_question) + 1, np.int64)
        by_position[scored] = self._policy.priorities(scores.totals, max_total)
        grounds = Grounds(names, positions, 0, None, scored, scores, None)
        return Priorities(names, by_position[positions], grounds)

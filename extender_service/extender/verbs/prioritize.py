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
        """Score the nodes of a request, in their order; a node that is not known scores 0.

        `beside` kube-scheduler's own scores: 0..10. In `replace`, the weighted totals of the framework.
        Raises CycleError, DecodeError or QuantityError for what cannot be scored by the `deadline`.
        """
        self._trust.require()
        self._expectations.expire()
        asked = self._nodes.find(args)
        scores = self._engine.score(Question(pod, asked, deadline))
        max_total = self._engine.profiles.of(pod).max_total
        # One more, which the position -1 of a node that is not known picks.
        by_position = np.zeros(len(asked.view) + 1, np.int64)
        by_position[np.flatnonzero(asked.asked)] = self._policy.priorities(scores.totals, max_total)
        return Priorities(asked.names, by_position[asked.positions])

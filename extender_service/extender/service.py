"""The extender: its verbs over one engine, wired once."""

import time

from extender_service.extender.binding_events import Record, discard
from extender_service.extender.expectations import EXPECTED_SECONDS, Expectations
from extender_service.extender.modes import POLICIES, Mode
from extender_service.extender.second_look import SecondLook
from extender_service.extender.trust import Trust
from extender_service.extender.verbs.bind import BindVerb
from extender_service.extender.verbs.filter import FilterVerb
from extender_service.extender.verbs.preempt import PreemptVerb
from extender_service.extender.verbs.prioritize import PrioritizeVerb
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.scheduling.engine import Engine
from extender_service.seams import Clock


class ExtenderService:
    """The verbs, and what only an extender needs.

    With `is_live`, the cluster follows an API server; otherwise it is a file, which does not change by itself.
    `record` takes events about bindings whose callers hung up. `clock` must be that of the engine's profiles and of the
    server.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        mode: Mode,
        is_live: bool,
        trust: Trust | None = None,
        record: Record = discard,
        clock: Clock = time.monotonic,
        expected_seconds: float = EXPECTED_SECONDS,
    ) -> None:
        policy = POLICIES[mode]
        trust = Trust() if trust is None else trust
        nodes = RequestedNodes(engine.cluster, engine.nodes)
        second_look = SecondLook(engine.cluster, clock) if is_live else None
        self.engine = engine
        self.clock = clock
        self.expectations = Expectations(engine.cluster, clock=clock, expected_seconds=expected_seconds)
        self.filter = FilterVerb(engine, nodes, trust, self.expectations, policy, second_look=second_look, clock=clock)
        self.prioritize = PrioritizeVerb(engine, nodes, trust, self.expectations, policy)
        self.preempt = PreemptVerb(engine, trust, self.expectations, policy, clock=clock)
        self.bind = BindVerb(engine, trust, record)

    def give_up(self, why: str) -> None:
        """Undo all bindings that wait, and drop all expectations."""
        self.engine.binder.undo_all(why)
        self.expectations.drop_all()

    async def close(self, grace_seconds: float) -> None:
        """Let bindings under way finish; undo those that take longer than the grace period, and drop expectations."""
        await self.engine.binder.close(grace_seconds)
        self.expectations.drop_all()

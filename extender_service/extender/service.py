"""The extender: its verbs over one engine, wired once."""

import asyncio
import time
from collections.abc import Callable

from extender_service.extender.asking_again import MOST_ASKED_AT_ONCE, AskingAgain, Touch
from extender_service.extender.binding_events import Record, discard
from extender_service.extender.expectations import EXPECTED_SECONDS, Expectations
from extender_service.extender.modes import POLICIES, Mode
from extender_service.extender.preemption import OwnPreemption, PreemptionWork
from extender_service.extender.refused_pods import RefusedPods
from extender_service.extender.second_look import SecondLook
from extender_service.extender.trust import Trust
from extender_service.extender.verbs.bind import BindVerb
from extender_service.extender.verbs.filter import FilterVerb
from extender_service.extender.verbs.preempt import PreemptVerb
from extender_service.extender.verbs.prioritize import PrioritizeVerb
from extender_service.extender.watch_lag import WatchLag
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.write_turns import WriteTurns, not_held_back
from extender_service.seams import Clock


class ExtenderService:
    """The verbs, and what only an extender needs.

    With `is_live`, the cluster follows an API server; otherwise it is a file, which does not change by itself.
    `record` takes events about bindings whose callers hung up. `pods_version` returns the resource version of the last
    pod that the watch has shown. `clock` must be that of the engine's profiles and of the server.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        mode: Mode,
        is_live: bool,
        trust: Trust | None = None,
        record: Record = discard,
        pods_version: Callable[[], str] = lambda: "",
        clock: Clock = time.monotonic,
        expected_seconds: float = EXPECTED_SECONDS,
    ) -> None:
        policy = POLICIES[mode]
        trust = Trust() if trust is None else trust
        nodes = RequestedNodes(engine.cluster, engine.nodes)
        lag = WatchLag(engine.cluster, pods_version)
        second_look = SecondLook(engine.cluster, lag, clock) if is_live else None
        self._lag = lag
        self._trust = trust
        self.engine = engine
        self.clock = clock
        self.expectations = Expectations(engine.cluster, clock=clock, expected_seconds=expected_seconds)
        self.refused = RefusedPods(engine.cluster, clock)
        self._preemption: OwnPreemption | None = None
        self.filter = FilterVerb(
            engine,
            nodes,
            trust,
            self.expectations,
            policy,
            lag=lag,
            second_look=second_look,
            refused=self.refused,
            clock=clock,
        )
        self.prioritize = PrioritizeVerb(engine, nodes, trust, self.expectations, policy)
        self.preempt = PreemptVerb(engine, trust, self.expectations, policy, lag, self.refused, clock=clock)
        self.bind = BindVerb(engine, trust, record, requires_fit=policy.chooses_node)

    def asking_again(self, touch: Touch, held_back_seconds: Callable[[], float] = not_held_back) -> AskingAgain:
        """Return what has kube-scheduler ask again about refused pods, by `touch`. From now on, these are kept.

        `held_back_seconds` returns how long the client's rate limit would hold back a request.
        """
        self.refused.is_kept = True
        turns = WriteTurns(MOST_ASKED_AT_ONCE, held_back_seconds)
        return AskingAgain(self.engine, self.refused, self._lag, self._trust, touch, turns, clock=self.clock)

    def preempt_by(self, work: PreemptionWork) -> None:
        """Have the service preempt by itself, instead of kube-scheduler."""
        self._preemption = OwnPreemption(self.engine, self._lag, self.refused, work, clock=self.clock)
        self.filter.preemption = self._preemption
        self.preempt.is_off = True

    def give_up(self, why: str) -> None:
        """Undo all bindings that wait, drop all expectations, and forget refused pods."""
        self.engine.binder.undo_all(why)
        self.expectations.drop_all()
        self.refused.clear()
        if self._preemption is not None:
            self._preemption.give_up()

    async def close(self, grace_seconds: float) -> None:
        """Let bindings under way finish; undo those that take longer than the grace period, and drop expectations.

        Preemption that is under way finishes, too.
        """
        if self._preemption is None:
            await self.engine.binder.close(grace_seconds)
        else:
            await asyncio.gather(self.engine.binder.close(grace_seconds), self._preemption.close(grace_seconds))
        self.expectations.drop_all()

"""Has kube-scheduler ask again about a pod that was refused because our watch was behind.

kube-scheduler parks a refused pod until an event of the cluster may help it. It may have seen that event before we did,
and asked because of it. Then no other event comes, and the pod would wait until kube-scheduler tries all pods again,
after five minutes. So pods that were refused lately are decided about again as the watch shows changes. If such a pod
fits, an annotation of it is changed, which moves it in kube-scheduler's queue (PriorityQueue.Update in
internal/queue/scheduling_queue.go).

In between, kube-scheduler has time to ask by itself: usually it sees the event soon after we do.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from extender_service.extender.refused_pods import REMEMBERED_SECONDS, Refusal, RefusedPods
from extender_service.extender.trust import Trust
from extender_service.extender.watch_lag import WatchLag
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from extender_service.scheduling.write_turns import Turn, WriteTurns
from extender_service.seams import Clock

log = logging.getLogger(__name__)

# How often refused pods are looked at, and the share of that time for deciding about them, while no call is in work.
_TICK_SECONDS = 0.1
_DECIDING_SECONDS = 0.005
# The deadline of one such decision.
_MOST_DECISION_SECONDS = 0.1
# Decisions about one refused pod that may take longer than that: then plugins are slow, not the machine.
_MOST_LATE_DECISIONS = 10
# A pod waits so long after a refusal in any case (podInitialBackoffSeconds). If it is moved before that, it may wait a
# second more, as kube-scheduler looks at waiting pods once a second.
_BACKOFF_SECONDS = 1.05
# How long kube-scheduler has to ask by itself.
_GRACE_SECONDS = 0.2
_PER_SECOND, _BURST = 10.0, 20
# So many pods are changed at once, besides those whose change hangs.
MOST_ASKED_AT_ONCE = 10
# The least time between two warnings.
_WARNING_SECONDS = 60.0

# Changes a pod, given by namespace, name and UID, so that kube-scheduler asks about it again. Raises KubeError.
Touch = Callable[[str, str, str], Awaitable[None]]


class AskingAgain:
    """Looks at refused pods while `run` runs. `counts` has the number of pods by outcome."""

    def __init__(
        self,
        engine: Engine,
        refused: RefusedPods,
        lag: WatchLag,
        trust: Trust,
        touch: Touch,
        turns: WriteTurns,
        *,
        clock: Clock,
    ) -> None:
        self.counts: Counter[str] = Counter(asked=0, failed=0)
        self._engine = engine
        self._cluster = engine.cluster
        self._refused = refused
        self._lag = lag
        self._trust = trust
        self._touch = touch
        self._turns = turns
        self._clock = clock
        self._limit = TokenBucket(_PER_SECOND, _BURST, clock=clock)
        self._under_way: set[asyncio.Task[None]] = set()
        self._warn_at = clock()
        # UIDs of those that this round has not dealt with.
        self._left: set[str] = set()

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Look at refused pods again and again, while `is_idle` returns that no call is in work. Never returns."""
        try:
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                if len(self._refused):
                    await self.look(is_idle)
        finally:
            for task in self._under_way:
                task.cancel()

    async def look(self, is_idle: Callable[[], bool] = lambda: True) -> None:
        """Look at refused pods, for a bounded time, and ask about those that fit now."""
        try:
            self._trust.require()
        except CycleError:
            return
        stop_at = self._clock() + _DECIDING_SECONDS
        for refusal in self._next():
            if self._is_placed(refusal):
                self._refused.forget(refusal.uid)
            elif self._should_ask(refusal):
                if not self._turns.has_free:
                    return
                self._begin(refusal)
            elif self._is_over(refusal):
                self._refused.forget(refusal.uid)
            self._left.discard(refusal.uid)
            if self._clock() >= stop_at or not is_idle():
                return

    def _next(self) -> list[Refusal]:
        """Return the refusals that there was no time for in this round, or all, for another round."""
        refusals = self._refused.all()
        left = [refusal for refusal in refusals if refusal.uid in self._left]
        if not left:
            self._left = {refusal.uid for refusal in refusals}
        return left or refusals

    def _is_placed(self, refusal: Refusal) -> bool:
        known = self._cluster.pod(refusal.uid)
        return self._cluster.placements.get(refusal.uid) is not None or bool(known and known.node_name)

    def _is_over(self, refusal: Refusal) -> bool:
        """Return whether kube-scheduler sees by itself what may help from now on.

        Not before there was a decision about the cluster as it is: where many are refused, or the machine is slow, the
        first turn of a pod may come later than that.
        """
        is_old = self._clock() > refusal.at + REMEMBERED_SECONDS
        is_decided = refusal.fits_at is None and refusal.version == self._refused.version()
        return is_old and is_decided and not refusal.is_withheld

    def _should_ask(self, refusal: Refusal) -> bool:
        now = self._clock()
        if refusal.fits_at is None or refusal.version != self._refused.version():
            if not self._has_changed(refusal):
                refusal.fits_at = None
                return False
            refusal.fits_at = now if refusal.fits_at is None else refusal.fits_at
        return now >= max(refusal.at + _BACKOFF_SECONDS, refusal.fits_at + _GRACE_SECONDS)

    def _has_changed(self, refusal: Refusal) -> bool:
        """Return whether the pod fits now, or may preempt others now, which it was kept from."""
        version, refusal.version = refusal.version, self._refused.version()
        if version == refusal.version and not refusal.is_withheld:
            return False
        try:
            pod = refusal.read_pod()
            is_behind = self._lag.is_room_coming(pod) or self._refused.awaits_nodes(refusal)
            if refusal.is_withheld and not is_behind:
                return True
            return version != refusal.version and self._fits(pod, refusal)
        except OutOfTimeError:
            # Where only the machine was slow for a moment, no other change may come.
            if refusal.late_decisions < _MOST_LATE_DECISIONS:
                refusal.late_decisions += 1
                refusal.version = version
            return False
        except (CycleError, QuantityError, DecodeError):
            return False  # a caller that asks gets the error
        except Exception:
            # A bug in a plugin must not end the service.
            log.exception("deciding about a refused pod failed")
            return False

    def _fits(self, pod: Pod, refusal: Refusal) -> bool:
        nodes = self._engine.nodes.marked(self._refused.marked(refusal))
        question = Question(pod, nodes, self._clock() + _MOST_DECISION_SECONDS, must_score=False)
        return len(self._engine.decide_without_reuse(question).feasible) > 0

    def _begin(self, refusal: Refusal) -> None:
        """Ask about a pod, unless its namespace is held up: then it is asked about later."""
        metadata = refusal.read_pod().metadata
        turn = self._turns.take_free(metadata.namespace)
        if turn is None:
            return
        self._refused.forget(refusal.uid)
        task = asyncio.create_task(self._ask(metadata, refusal.uid, turn))
        self._under_way.add(task)
        task.add_done_callback(partial(self._end, turn))

    def _end(self, turn: Turn, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        turn.end()

    async def _ask(self, metadata: ObjectMeta, uid: str, turn: Turn) -> None:
        await self._limit.take()
        turn.begin()
        try:
            # The lease may have been lost meanwhile.
            self._trust.require()
            await self._touch(metadata.namespace, metadata.name, uid)
        except (KubeError, CycleError) as error:
            if isinstance(error, ApiError) and error.says_gone:
                return  # the pod is gone
            self.counts["failed"] += 1
            self._warn(f"{metadata.namespace}/{metadata.name}", str(error))
        else:
            self.counts["asked"] += 1
            extra = {"pod": f"{metadata.namespace}/{metadata.name}"}
            log.info("a refused pod fits now that the watch has caught up: kube-scheduler asks again", extra=extra)

    def _warn(self, pod: str, error: str) -> None:
        now = self._clock()
        if now >= self._warn_at:
            self._warn_at = now + _WARNING_SECONDS
            log.warning(
                "a refused pod fits now, but cannot be changed so that kube-scheduler asks again: grant the right to "
                "patch pods, or set --ask-again=false",
                extra={"pod": pod, "error": error},
            )

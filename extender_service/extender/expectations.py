"""Expected placements: filter has chosen a node in `replace`, and kube-scheduler is about to ask for the binding.

An expectation ends when the pod's binding begins (then it is assumed), when the watch shows the pod on a node, when
the pod is deleted, a caller asks about it again, or here:

- after UNKNOWN_SECONDS if the watch does not know the pod by then, and after `expected_seconds` in any case
- when another pod, for which preempt has named it as a victim, is nominated on its node (see named_victims.py)
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Iterator, Mapping

from extender_service.cluster.debugging.table_sizes import TableSize
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.extender.named_victims import MOST_VICTIMS, NamedVictims
from extender_service.kube.types.extender_api import MetaVictims
from extender_service.seams import Clock

# kube-scheduler's default bindTimeoutSeconds.
EXPECTED_SECONDS = 600.0
# Seconds. kube-scheduler asks about a pod as soon as its own watch shows it; our watch is never this much later.
UNKNOWN_SECONDS = 5.0
# Calls expire expectations, too. This is the interval without calls.
EXPIRY_SECONDS = 1.0
# Most expectations end long before their deadlines. This many deadlines are kept beyond twice those that still count.
SPARE_DEADLINES = 64


class Expectations:
    """Ends expected placements, by time and by preemption."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock = time.monotonic,
        expected_seconds: float = EXPECTED_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._expected_seconds = expected_seconds
        self._deadlines: list[tuple[float, int, bool, Placement]] = []
        self._order = itertools.count()
        self._victims = NamedVictims(cluster.placements)

    def expect(self, placement: Placement) -> None:
        """Drop the placement after its time, unless its binding has begun by then."""
        seconds = min(UNKNOWN_SECONDS, self._expected_seconds)
        is_last = seconds == self._expected_seconds
        heapq.heappush(self._deadlines, (self._clock() + seconds, next(self._order), is_last, placement))

    def expire(self) -> None:
        """Drop the expectations that are past their deadlines."""
        deadlines, now = self._deadlines, self._clock()
        while deadlines and deadlines[0][0] <= now:
            made_after, order, is_last, placement = heapq.heappop(deadlines)
            if not self._is_expected(placement):
                continue
            if is_last or self._cluster.pod(placement.uid) is None:
                self._cluster.drop_placement(placement.uid)
            else:
                rest = self._expected_seconds - UNKNOWN_SECONDS
                heapq.heappush(deadlines, (made_after + rest, order, True, placement))
        spare = len(deadlines) - SPARE_DEADLINES
        if spare > 0 and spare > 2 * len(self._cluster.placements):
            self._deadlines = [deadline for deadline in deadlines if self._is_expected(deadline[3])]
            heapq.heapify(self._deadlines)

    async def keep_expiring(self) -> None:
        """Expire expectations every second, also while kube-scheduler sends no calls. Never returns."""
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            self.expire()

    def note_victims(self, preemptor: str, victims: Mapping[str, MetaVictims]) -> None:
        """Note the victims, by node, that preempt names for the pod with the UID `preemptor`."""
        self._victims.note(preemptor, victims)

    def drop_victims(self, preemptor: str, node_name: str) -> None:
        """Drop the expectations of victims on a node that were named for a pod, which is now nominated there.

        A victim that a caller has asked about again since, or that is being bound, still counts.
        """
        for placement in self._victims.take(preemptor, node_name):
            if self._is_expected(placement):
                self._cluster.drop_placement(placement.uid)

    def drop_all(self) -> None:
        """Drop the expectations of all pods. A pod that is being bound, or was bound, still counts."""
        for placement in list(self._cluster.placements):
            if not placement.assumed:
                self._cluster.drop_placement(placement.uid)

    def table_sizes(self) -> Iterator[TableSize]:
        """Yield the numbers of kept deadlines and victims, including those of expectations that have ended already."""
        limit = 2 * len(self._cluster.placements) + SPARE_DEADLINES
        yield TableSize("placement_deadlines", len(self._deadlines), limit)
        yield TableSize("named_victims", len(self._victims), MOST_VICTIMS)

    def _is_expected(self, placement: Placement) -> bool:
        return not placement.assumed and self._cluster.placements.get(placement.uid) is placement

"""Pods that count on a node before the watch says so: expected there, or assumed because we bound them.

They are kept apart from the facts of the watch, so that dropping one leaves no trace.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator

import msgspec

from extender_service.cluster.occupancy import Occupancy
from extender_service.cluster.pod_entries import pod_entry
from extender_service.kube.objects import Pod

# kube-scheduler asks about a pod as soon as its own watch shows it; ours is never this much later.
UNKNOWN_SECONDS = 5.0
# Most placements end long before their deadlines. So many of these are kept beyond twice those that still count.
SPARE_DEADLINES = 64


class Placement(msgspec.Struct, eq=False):
    """One pod that counts on a node ahead of the watch.

    `on_drop` is called when the placement is dropped rather than fulfilled. `plan` is what whoever made the placement
    needs to go on from there.
    """

    pod: Pod
    uid: str
    node_name: str
    slot: int
    assumed: bool
    on_drop: Callable[[], None]
    plan: object


def _nothing() -> None:
    """What there is to do about most placements that are dropped."""


class Placements:
    """Expected and assumed pods by UID, at most one for each.

    An expectation ends by itself: after UNKNOWN_SECONDS if the watch does not know the pod (`is_known`), and after
    `expected_seconds`. An assumed pod stays until somebody fulfils or drops it. `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        occupancy: Occupancy,
        is_known: Callable[[str], bool],
        clock: Callable[[], float],
        expected_seconds: float,
    ) -> None:
        self._occupancy = occupancy
        self._is_known = is_known
        self._clock = clock
        self._expected_seconds = expected_seconds
        self._by_uid: dict[str, Placement] = {}
        self._deadlines: list[tuple[float, int, bool, Placement]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._by_uid)

    @property
    def deadline_count(self) -> int:
        """How many ends of expectations are still to be looked at, also of those that have ended before."""
        return len(self._deadlines)

    def __iter__(self) -> Iterator[Placement]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> Placement | None:
        """Return the placement of a pod, if there is one."""
        return self._by_uid.get(uid)

    def expect(
        self, pod: Pod, uid: str, node_name: str, on_drop: Callable[[], None] = _nothing, plan: object = None
    ) -> Placement:
        """Count a pod on the node that was chosen for it, in place of any earlier placement.

        Raises QuantityError for a malformed quantity.
        """
        placement = self._place(pod, uid, node_name, assumed=False, on_drop=on_drop, plan=plan)
        seconds = min(UNKNOWN_SECONDS, self._expected_seconds)
        is_last = seconds == self._expected_seconds
        heapq.heappush(self._deadlines, (self._clock() + seconds, next(self._order), is_last, placement))
        return placement

    def assume(
        self, pod: Pod, uid: str, node_name: str, on_drop: Callable[[], None] = _nothing, plan: object = None
    ) -> Placement:
        """Count a pod on the node that it is being bound to; an expectation on that node turns into this.

        Raises QuantityError for a malformed quantity.
        """
        expected = self._by_uid.get(uid)
        if expected is not None and expected.node_name == node_name:
            expected.assumed = True
            return expected
        return self._place(pod, uid, node_name, assumed=True, on_drop=on_drop, plan=plan)

    def hand_over(self, uid: str) -> int:
        """End a placement because the watch shows just that pod on that node; its slot is the caller's from now on."""
        return self._by_uid.pop(uid).slot

    def fulfil(self, uid: str) -> Placement | None:
        """End a placement because the watch shows the pod on that node, where the caller counts it in another slot."""
        placement = self._by_uid.pop(uid, None)
        if placement is not None:
            self._occupancy.remove(placement.slot)
        return placement

    def drop(self, uid: str) -> Placement | None:
        """End a placement that came to nothing."""
        placement = self.fulfil(uid)
        if placement is not None:
            placement.on_drop()
        return placement

    def expire(self) -> list[Placement]:
        """Drop the expectations whose time is up, and return them."""
        now = self._clock()
        dropped = []
        while self._deadlines and self._deadlines[0][0] <= now:
            made_after, order, is_last, placement = heapq.heappop(self._deadlines)
            if not self._is_expected(placement):
                continue
            if is_last or not self._is_known(placement.uid):
                self.drop(placement.uid)
                dropped.append(placement)
            else:
                rest = self._expected_seconds - UNKNOWN_SECONDS
                heapq.heappush(self._deadlines, (made_after + rest, order, True, placement))
        if len(self._deadlines) > 2 * len(self._by_uid) + SPARE_DEADLINES:
            self._deadlines = [deadline for deadline in self._deadlines if self._is_expected(deadline[3])]
            heapq.heapify(self._deadlines)
        return dropped

    def _is_expected(self, placement: Placement) -> bool:
        return not placement.assumed and self._by_uid.get(placement.uid) is placement

    def _place(
        self, pod: Pod, uid: str, node_name: str, *, assumed: bool, on_drop: Callable[[], None], plan: object
    ) -> Placement:
        entry = pod_entry(pod, uid, node_name)
        self.drop(uid)
        slot = self._occupancy.add(entry)
        placement = Placement(pod, uid, node_name, slot, assumed, on_drop, plan)
        self._by_uid[uid] = placement
        return placement

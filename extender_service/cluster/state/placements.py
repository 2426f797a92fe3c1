"""Placements: pods that count on a node before the watch says so.

They are kept apart from the facts of the watch, so that dropping one leaves no trace. A pod has at most one:

                           place              assume
    (Reserve succeeded) ──────────▶ reserved ────────▶ assumed
                                        │                 │
              ┌─────────────────────────┼─────────────────┴──────────┐
         drop │                     end │        hand_over or fulfil │
              ▼                         ▼                            ▼
     (failed or out of date:   (the pod has ended:        (confirmed: the watch
      Unreserve runs)           Unreserve runs unless      shows it there)
                                PostBind has)

It is assumed once its binding begins, with Permit. A confirmed pod counts as a fact of the watch: in the placement's
slot after `hand_over`, in another one after `fulfil`. Confirmations also fulfils the placement of a pod that was bound,
and has gone before the watch could show that. Every end but confirmation by the watch frees the node's room: Cluster
reports that, so all others end placements by its methods (`drop_placement` and so on).

A reserved pod that is never bound is dropped by its owner: the extender drops what it expects after some time (see
extender/expectations.py). An assumed pod does not expire: it stays until the watch shows it, or until reading it shows
that it is not bound there (see scheduling/confirmations.py). Either one ends where a list that should show the pod does
not. Placing a pod again, on any node, drops its placement first.

The watch may also show a pod on its node that is only reserved: kube-scheduler binds itself, or an earlier binding was
carried out late. No binding will end that reservation, so PostBind runs then. For an assumed pod, its binding runs it,
or Confirmations.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from extender_service.cluster.pods.pod_entries import pod_entry
from extender_service.cluster.state.occupancy import Occupancy
from extender_service.kube.types.core import Pod


class Reservation(Protocol):
    """What was set aside for a pod on its node, and how its binding goes on from there."""

    has_reached_bind: bool
    """Whether Bind has begun; from then on only the API server knows whether the pod is bound."""
    post_bind_has_run: bool
    """Whether `run_post_bind` was called: the pod is known to be bound."""
    bind_count: int
    """How often Bind has begun."""

    def unreserve(self) -> None:
        """Give back what was set aside; may be called more than once."""

    def permit(self) -> None:
        """Ask the plugins whether the pod may be bound. Raises CycleError."""

    def pre_flight(self) -> bool:
        """Return whether binding the pod, once permitted, will take its time before Bind. Raises CycleError."""

    def preempt_in_pre_bind(self, why: str) -> bool:
        """Have PreBind fail, so that the pod can be tried again; returns whether it was running."""

    async def run_to_bind(self, may_bind: Callable[[], None]) -> None:
        """Bind the pod, if `may_bind` does not raise CycleError by then. Raises CycleError or KubeError."""

    def run_post_bind(self) -> None:
        """Run PostBind, once the pod is known to be bound; later calls do nothing."""


class Placement(msgspec.Struct, eq=False, weakref=True):
    """One pod that counts on a node ahead of the watch; `assumed` once its binding has begun, with Permit.

    `is_confirmed` is set when the watch shows the pod there, or a read shows that it was there and has ended or gone.
    Both end the placement.
    """

    pod: Pod
    uid: str
    node_name: str
    slot: int
    reservation: Reservation | None
    assumed: bool = False
    is_confirmed: bool = False

    def assume(self) -> None:
        """Note that the binding of the pod has begun, with Permit."""
        self.assumed = True


class Placements:
    """Placements by the UID of their pod.

    The methods that are called `unreported` are for Cluster, which reports what they free.
    """

    def __init__(self, occupancy: Occupancy) -> None:
        self._occupancy = occupancy
        self._by_uid: dict[str, Placement] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Placement]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> Placement | None:
        """Return the placement of a pod."""
        return self._by_uid.get(uid)

    def among(self, uids: AbstractSet[str]) -> AbstractSet[str]:
        """Return the UIDs that have a placement; takes time in proportion to the fewer of both."""
        return uids & self._by_uid.keys()

    def place(self, pod: Pod, uid: str, node_name: str, reservation: Reservation | None = None) -> Placement:
        """Count a pod on a node from now on. Raises QuantityError for a malformed quantity."""
        entry = pod_entry(pod, uid, node_name, self._occupancy.rules)
        self.drop_unreported(uid)
        slot = self._occupancy.add(entry)
        placement = Placement(pod, uid, node_name, slot, reservation)
        self._by_uid[uid] = placement
        return placement

    def hand_over(self, uid: str) -> int:
        """End a placement because the watch shows just that pod on that node; its slot is the caller's from now on."""
        placement = self._by_uid.pop(uid)
        _confirm(placement)
        return placement.slot

    def fulfil_unreported(self, uid: str) -> Placement | None:
        """End a placement because the watch shows the pod on that node, where the caller counts it in another slot."""
        placement = self._by_uid.pop(uid, None)
        if placement is not None:
            self._occupancy.remove(placement.slot)
            _confirm(placement)
        return placement

    def drop_unreported(self, uid: str) -> Placement | None:
        """End a placement that has failed or is out of date, and give back what was set aside for it."""
        placement = self._by_uid.pop(uid, None)
        if placement is None:
            return None
        self._occupancy.remove(placement.slot)
        if placement.reservation is not None:
            placement.reservation.unreserve()
        return placement

    def end_unreported(self, uid: str) -> Placement | None:
        """End a placement because the watch shows that the pod has ended.

        Gives back what was set aside for it, unless the pod was bound: a watch may show its end without that, as a list
        does of a pod that is done.
        """
        placement = self._by_uid.get(uid)
        if placement is None or placement.reservation is None or not placement.reservation.post_bind_has_run:
            return self.drop_unreported(uid)
        del self._by_uid[uid]
        self._occupancy.remove(placement.slot)
        return placement


def _confirm(placement: Placement) -> None:
    placement.is_confirmed = True
    if placement.reservation is not None and not placement.assumed:
        placement.reservation.run_post_bind()

"""What holds of reservations, by a plugin that counts them."""

from collections.abc import Iterator
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from extender_service.framework.cycle_state import CycleState
from extender_service.kube.types.core import pod_name
from extender_service.kube.types.pods import pod_uid
from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.ledger import Ledger, LedgerEntry, listen_to_ledgers
from tests.worlds.invariants.lost_writes import wait_for_lost_writes
from tests.worlds.invariants.observed import Lasting, Observed

_BOUND: Final = "bound"
_UNRESERVED: Final = "unreserved"


class _Attempts:
    """The attempts of one process: by pod the one that holds a reservation, how the last one ended, and how often etcd
    had been restored when it began."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[CycleState, str]] = {}
        self.ended: dict[str, tuple[ReferenceType[CycleState], str]] = {}
        self.restores: dict[str, int] = {}


class ReservationsBalanced:
    """For a plugin, reserved = unreserved + bound: each reservation ends once, by Unreserve or by PostBind.

    A pod has one reservation at a time. Unreserve may come again for an attempt that has ended that way, but never for
    one that was bound, nor does it end the reservation of a later attempt. It may come for a pod that was bound if etcd
    has been restored since it was reserved, and does not have it on that node: then the plugin is to give back what it
    holds there. Those of a process that was killed ended with it; of
    others, ReservationsEnded looks in the end whether any are left.
    """

    name = "reservations balanced"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._restores = 0
        self._attempts: WeakKeyDictionary[Ledger, _Attempts] = WeakKeyDictionary()
        observed.model.etcd.on_restore.append(self._count_restore)
        listen_to_ledgers(observed.world.network, self._note)

    def _note(self, entry: LedgerEntry) -> None:
        attempts = self._attempts.setdefault(entry.ledger, _Attempts())
        uid, state = pod_uid(entry.pod), entry.state
        held = attempts.open.get(uid)
        match entry.point:
            case "reserve":
                if held is not None:
                    self._violated(entry, f"is reserved once more, though it is on {held[1]}")
                attempts.open[uid] = (state, entry.node_name)
                attempts.restores[uid] = self._restores
            case "post_bind":
                if held is None or held[0] is not state:
                    self._violated(entry, "is bound without a reservation of this attempt")
                self._end(attempts, uid, state, _BOUND)
            case "unreserve":
                if held is not None and held[0] is state:
                    self._end(attempts, uid, state, _UNRESERVED)
                elif held is not None:
                    self._violated(entry, f"is unreserved for an earlier attempt, while one has it on {held[1]}")
                elif attempts.ended.get(uid) == (ref(state), _BOUND) and not self._is_taken_back(
                    attempts, uid, entry.node_name
                ):
                    self._violated(entry, "is unreserved, though it was bound")

    def _is_taken_back(self, attempts: _Attempts, uid: str, node_name: str) -> bool:
        """Return whether etcd was restored since a pod was reserved, and does not have it on that node now."""
        stored = self._observed.model.etcd.all(PODS)
        there = (item.value["metadata"]["uid"] for item in stored if item.value["spec"].get("nodeName") == node_name)
        return self._restores > attempts.restores[uid] and uid not in there

    def _count_restore(self) -> None:
        self._restores += 1

    def _end(self, attempts: _Attempts, uid: str, state: CycleState, how: str) -> None:
        attempts.open.pop(uid, None)
        attempts.ended[uid] = (ref(state), how)

    def _violated(self, entry: LedgerEntry, what: str) -> None:
        text = f"{entry.ledger.who}: pod {pod_name(entry.pod)} {what} ({entry.point} on {entry.node_name})"
        self._observed.violated(self, text)

    def open(self) -> Iterator[tuple[Ledger, str, CycleState, str]]:
        """Yield each reservation that has not ended: its process' plugin, the UID of the pod, the attempt, the node."""
        for ledger, attempts in self._attempts.items():
            for uid, (state, node_name) in attempts.open.items():
                yield ledger, uid, state, node_name

    def at_end(self) -> None:
        """All was checked as it came."""


class ReservationsEnded:
    """No reservation is left in a process that runs, except that `serve` keeps for ten minutes what it has reserved for
    a pod that waits, and that no replica went on to bind; and except for a pod whose binding waits for a write that
    etcd has lost (`wait_for_lost_writes`).
    """

    name = "reservations balanced"

    def __init__(self, balanced: ReservationsBalanced) -> None:
        self._balanced = balanced
        self._lasting = Lasting()

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the reservations that are left."""
        yield from self._lasting.of(self._left(observed))

    def _left(self, observed: Observed) -> Iterator[tuple[tuple[str, CycleState], str]]:
        running = {program.loop: program for program in observed.programs if program.outcome is None}
        excused = {loop: wait_for_lost_writes(observed, program) for loop, program in running.items()}
        if observed.service is not None and observed.service.outcome is None:
            stored = observed.model.etcd.all(PODS)
            waiting = {item.value["metadata"]["uid"] for item in stored if not item.value["spec"].get("nodeName")}
            excused[observed.service.loop] |= waiting
        for ledger, uid, state, node_name in self._balanced.open():
            if ledger.loop in running and uid not in excused[ledger.loop]:
                yield (uid, state), f"{ledger.who} has pod {uid} reserved on {node_name}"

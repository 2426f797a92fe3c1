"""What holds of who writes."""

from bisect import bisect_right
from typing import Final

import msgspec

from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import LEASES, Kind
from tests.worlds.api_server.messages import Response
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served

LEASE = "kube-system/kube-scheduler"
# A lease that was taken from its leader without its knowledge (deleted by a user, or rolled back with etcd) leaves two
# leaders until the first one learns of it: at its next renewal, which it tries for 10 s, after 2 s.
_DISTURBED_SECONDS = 12.0
# Leases themselves, reviews, and the core/v1 events that say who leads.
_WRITTEN_BY_ALL = ("/leases", "reviews", "/api/v1/namespaces/kube-system/events", "/api/v1/namespaces/default/events")

_BINDING: Final = "/binding"
_LEASES_PATH: Final = "/leases"
_LEASE_PATH: Final = f"{_LEASES_PATH}/kube-scheduler"
_LEAST_REFUSAL: Final = 300
_SECONDS_BETWEEN_LOOKS: Final = 1.0
# Clocks drift by less than that; and a program reads its clock some time before it writes.
_DRIFTED_RATE: Final = 0.9
_READING_SECONDS: Final = 0.01
# `serve` takes for so long, by its clock, that a read of the lease still holds, and waits for as long once it has read
# that its scheduler took the lease.
_GOOD_SECONDS: Final = 2.0
_LEASE_READ_SECONDS: Final = _GOOD_SECONDS / _DRIFTED_RATE + _READING_SECONDS
_LEASE_TAKEN_SECONDS: Final = _GOOD_SECONDS * _DRIFTED_RATE - _READING_SECONDS


class WrittenByLeader:
    """Of several replicas, only the leader writes to the API server: what is not about the lease itself.

    The leader is the replica that the lease names, in the API server's store, at the time when it wrote the last byte
    of the request. So what it wrote before the lease went to another replica is excused, however late it arrives: no
    scheduler can take that back. What it writes after that moment is not excused: not after a freeze, not with a clock
    that drifts or jumps, and not on a connection that took long to open. Excused is also what is written within 12 s
    after a lease was deleted, or etcd was restored, since the leader cannot know of that sooner.

    Where `serve` works only while the scheduler on its machine leads, this holds for that replica, too. A read of the
    lease counts for 2 s, by the clock of `serve`. So it binds only where the lease named that scheduler within the last
    2 s, and had gone to it 2 s ago: sooner, the `serve` of the holder before may still bind. That is the same one where
    the lease went from one process of that scheduler to the next.
    """

    name = "written by the leader"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._replicas = {replica.name: replica for replica in observed.replicas}
        service = observed.service if observed.is_pair else None
        self._paired = None if service is None else service.name
        # How the identity of a scheduler begins that is on the machine of `serve`.
        self._partner = "" if service is None else f"{service.host_name}_"
        self._times: list[float] = [0.0]
        self._holders: list[str] = [""]
        self._disturbed_until = -1.0
        if len(self._replicas) > 1 or observed.is_pair:
            observed.model.etcd.listeners.append(self._see)
            observed.model.etcd.on_restore.append(self._take_restored)
            observed.listen(self._check)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is LEASES and change.item.key == LEASE:
            if change.after is None:
                self._disturb()
            else:
                self._note(change.after.value["spec"].get("holderIdentity", ""))

    def _take_restored(self) -> None:
        lease = self._observed.model.etcd.get(LEASES, LEASE)
        self._note("" if lease is None else lease.value["spec"].get("holderIdentity", ""))
        self._disturb()

    def _disturb(self) -> None:
        self._disturbed_until = self._observed.now + _DISTURBED_SECONDS

    def _note(self, holder: str) -> None:
        if holder != self._holders[-1]:
            self._times.append(self._observed.now)
            self._holders.append(holder)

    def _check(self, served: Served) -> None:
        if served.request.method == "GET" or served.written_at <= self._disturbed_until:
            return
        may_write = self._may_bind if served.who == self._paired else self._may_write
        if not may_write(served):
            text = f"{served.who} wrote {served.request.method} {served.request.path} at {served.written_at:.6f}"
            last = bisect_right(self._times, served.written_at) - 1
            held = f"{self._holders[last] or 'nothing'} held the lease, since {self._times[last]:.6f}"
            self._observed.violated(self, f"{text}, while {held}")

    def _may_write(self, served: Served) -> bool:
        """Return whether a program is no replica, writes what all may write, or led when it wrote."""
        if served.who not in self._replicas or any(part in served.request.path for part in _WRITTEN_BY_ALL):
            return True
        [holder] = self._holders_from(served.written_at, served.written_at)
        return self._is_named(holder, served.who, served.written_at)

    def _may_bind(self, served: Served) -> bool:
        """Return whether `serve` does not bind, or the scheduler on its machine led as its rule has it."""
        if not served.request.path.endswith(_BINDING):
            return True
        # Who had the lease in this span took it before the end, and lost it after the begin, if at all.
        written_at = served.written_at
        holders = self._holders_from(written_at - _LEASE_READ_SECONDS, written_at - _LEASE_TAKEN_SECONDS)
        return any(holder.startswith(self._partner) for holder in holders)

    def _holders_from(self, begin: float, end: float) -> list[str]:
        """Return who held the lease in a span of time, in order."""
        first, last = (bisect_right(self._times, at) - 1 for at in (begin, end))
        return self._holders[max(first, 0) : last + 1]

    def _is_named(self, holder: str, who: str, written_at: float) -> bool:
        """Return whether a holder is the process of a replica that wrote then, and not the one before on its host."""
        replica = self._replicas[who]
        insides = scheduler_insides(replica) if written_at >= replica.started_at else None
        if insides is None or insides.elector is None:
            return holder.startswith(f"{who}_")
        return holder == insides.elector._lock.identity

    def at_end(self) -> None:
        """All was checked as it came."""


class LeaseTakenInTurn:
    """A replica takes the lease of another one only after that has given it up, or has not renewed it for as long as
    the lease itself says. A tenth of that is excused, as clocks drift. What wall clocks show is no excuse. Notes on the
    lease do not renew it.

    Not looked at is what comes within 12 s after etcd was restored. Then, a lease counts from when the one in the
    backup was written: who has seen it need not see later ones, which were taken back.
    """

    name = "lease taken in turn"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._changed_at = 0.0
        self._written_at: dict[tuple[str, str], float] = {}  # by holder and time of renewal
        self._disturbed_until = -1.0
        observed.model.etcd.listeners.append(self._see)
        observed.model.etcd.on_restore.append(self._disturb)

    def _disturb(self) -> None:
        self._disturbed_until = self._observed.now + _DISTURBED_SECONDS
        lease = self._observed.model.etcd.get(LEASES, LEASE)
        if lease is not None:
            self._changed_at = self._written_at.get(_renewal(lease), self._changed_at)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is not LEASES or change.item.key != LEASE or _is_note(change):
            return
        now, changed_at = self._observed.now, self._changed_at
        self._changed_at = self._written_at[_renewal(change.item)] = now
        if change.before is None or change.after is None or now <= self._disturbed_until:
            return
        before, after = change.before.value["spec"], change.after.value["spec"]
        holder, taker = before.get("holderIdentity"), after.get("holderIdentity")
        seconds = before.get("leaseDurationSeconds", 0)
        if holder and taker and holder != taker and now - changed_at < seconds * _DRIFTED_RATE:
            text = f"{taker} takes the lease {now - changed_at:.3f} s after {holder} renewed it for {seconds} s"
            self._observed.violated(self, text)

    def at_end(self) -> None:
        """All was checked as it came."""


class LeaseCountedFromRequest:
    """Each second: a replica counts the age of its lease from no later than the request that renewed it last.

    So it stops to write before another replica may take the lease, however long the answer takes. A tenth of the age is
    excused, as clocks drift. A machine that sleeps is not looked at.
    """

    name = "lease counted from its request"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._written_at: dict[str, float] = {}
        observed.listen(self._note)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _note(self, served: Served) -> None:
        """Note when the last byte was written of a request that made or renewed the lease, by the identity in it.

        A leader creates the lease again if etcd was restored to a backup without it.
        """
        path, method = served.request.path, served.request.method
        is_done = isinstance(served.answer, Response) and served.answer.status < _LEAST_REFUSAL
        is_write = path.endswith(_LEASE_PATH if method == "PUT" else _LEASES_PATH) and method in ("PUT", "POST")
        if is_write and is_done:
            holder = msgspec.json.decode(served.request.body)["spec"].get("holderIdentity", "")
            self._written_at[holder] = max(served.written_at, self._written_at.get(holder, 0.0))

    def _look(self) -> None:
        self._observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        for replica in self._observed.replicas:
            insides = scheduler_insides(replica)
            if insides is None or insides.elector is None or replica.clocks.is_asleep:
                continue
            renewed_at = insides.elector._renewed_at
            written_at = self._written_at.get(insides.elector._lock.identity)
            if renewed_at is not None and written_at is not None:
                self._compare(replica.name, insides.elector._clock() - renewed_at, self._observed.now - written_at)

    def _compare(self, name: str, age: float, seconds: float) -> None:
        if age < seconds * _DRIFTED_RATE - _READING_SECONDS:
            text = f"{name} counts {age:.3f} s since it renewed its lease, and asked for that {seconds:.3f} s ago"
            self._observed.violated(self, text)

    def at_end(self) -> None:
        """All was looked at as time went on."""


def _is_note(change: Change) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and before.value["spec"] == after.value["spec"]


def _renewal(lease: Item) -> tuple[str, str]:
    spec = lease.value["spec"]
    return spec.get("holderIdentity") or "", spec.get("renewTime") or ""

"""Another pair of scheduler and service, which stands by for the lease of the pair in the world. Both are one actor.

Its scheduler takes part in the election as client-go does (tools/leaderelection/leaderelection.go). Its service binds
only while that leads, as extender/leadership.py has it: from when no service of the holder before may bind any more,
and for as long afterwards as it takes a read of the lease for good.
"""

from contextlib import suppress
from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object
from tests.worlds.actors.routines import start
from tests.worlds.actors.second_scheduler import SecondScheduler
from tests.worlds.api_server.objects.timestamps import micro_time

NAME: Final = "rival"
_LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
# leaseDuration, renewDeadline and retryPeriod, and by which factor a candidate pauses for longer at most.
_LEASE_SECONDS: Final = 15
_RENEW_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 2.0
_MOST_JITTER: Final = 2.2
_RELEASED_SECONDS: Final = 1
# For so long a service takes a read of the lease for good.
_GOOD_SECONDS: Final = 2.0
_LEADS_SECONDS: Final = (20.0, 40.0)
_ABSENT_SECONDS: Final = (10.0, 30.0)
_SCHEDULER: Final = "default-scheduler"
# What a pod may have that the second scheduler's code does not look at, in its spec and in its affinity.
_UNJUDGED: Final = frozenset(("volumes", "topologySpreadConstraints", "resourceClaims"))
_NEAR_OTHERS: Final = frozenset(("podAffinity", "podAntiAffinity"))


class Rival:
    """Takes the lease once that has expired, or was given up. It leads for a while, binds some pods, and gives it up.

    At `until` it gives up, and stands by no more. The pair of the world leads first: without a lease, this one waits.
    """

    def __init__(self, client: ActorClient, until: float) -> None:
        self._client = client
        self._until = until
        self._identity = self._new_identity()
        self._scheduler = SecondScheduler(client, self._wants)
        # The spec of the lease, and when it was seen to change last.
        self._seen: Object = {}
        self._seen_at = 0.0
        self._binds_from = 0.0
        self._binds_until = 0.0

    def start(self) -> None:
        """Begin to stand by."""
        self._scheduler.start()
        start(self._live())

    async def _live(self) -> None:
        random = self._client.random
        while self._now() < self._until:
            if await self._try():
                await self._lead()
                # Its process ends then, and another one comes after a while.
                self._identity = self._new_identity()
                await self._client.sleep(random.uniform(*_ABSENT_SECONDS))
            await self._client.sleep(_RETRY_SECONDS * random.uniform(1.0, _MOST_JITTER))

    async def _lead(self) -> None:
        """Renew the lease, and bind pods meanwhile, until it is time or the lease is lost. Then give it up."""
        ends_at = min(self._now() + self._client.random.uniform(*_LEADS_SECONDS), self._until)
        self._binds_from = self._now() + _GOOD_SECONDS
        self._client.call_later(_GOOD_SECONDS, self._scheduler.look_at_all)
        while True:
            await self._client.sleep(_RETRY_SECONDS)
            if self._now() >= min(ends_at, self._binds_until):
                break
            await self._try()
        self._binds_until = min(self._binds_until, self._now() + _GOOD_SECONDS)
        await self._release()

    def _new_identity(self) -> str:
        return f"{self._client.name}_{self._client.random.getrandbits(64):016x}"

    async def _try(self) -> bool:
        """Take the lease or renew it, unless another scheduler holds it; return whether that was done."""
        begun_at = self._now()
        try:
            lease = await self._client.ask("GET", _LEASE)
            if lease["spec"] != self._seen:
                self._seen, self._seen_at = lease["spec"], self._now()
            holder = self._seen.get("holderIdentity", "")
            ends_at = self._seen_at + self._seen.get("leaseDurationSeconds", 0)
            if holder not in ("", self._identity) and self._now() < ends_at:
                return False
            await self._put(lease, self._identity, _LEASE_SECONDS)
        except RequestError:
            return False
        self._binds_until = begun_at + _RENEW_SECONDS
        return True

    async def _release(self) -> None:
        """Give the lease up, so that another scheduler need not wait for its end. Not tried again."""
        with suppress(RequestError):
            lease = await self._client.ask("GET", _LEASE)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._put(lease, "", _RELEASED_SECONDS)

    async def _put(self, lease: Object, holder: str, seconds: int) -> None:
        """Write the lease, unless it has changed since it was read: then, the API server refuses."""
        before, now = lease["spec"], micro_time(self._client.clocks.wall())
        spec = {**before, "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": now}
        if holder != before.get("holderIdentity"):
            transitions = before.get("leaseTransitions", 0) + (1 if holder else 0)
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        await self._client.ask("PUT", _LEASE, {**lease, "spec": spec})

    def _wants(self, pod: Object) -> bool:
        """Return whether it may bind now, and binds this pod: about half of those that its code can judge."""
        spec = pod["spec"]
        if not self._binds_from <= self._now() < self._binds_until or spec.get("schedulerName") != _SCHEDULER:
            return False
        if _UNJUDGED.intersection(spec) or _NEAR_OTHERS.intersection(spec.get("affinity", {})):
            return False
        return int(pod["metadata"]["uid"][-1], 16) % 2 == 0

    def _now(self) -> float:
        return self._client.world.timeline.now

"""People and tools who note something on the lease of schedulers, as any object may be labelled. Who leads stays."""

from contextlib import suppress
from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start

LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_PAUSES_SECONDS: Final = (1.0, 4.0, 15.0)


class LeaseNotes:
    """Annotate the lease, now and then until a time. Where there is none, or the API server refuses, they give up.

    So a scheduler writes the lease at a version that it has not read: its next renewal is refused, or its release.
    """

    def __init__(self, client: ActorClient, until: float) -> None:
        self._client = client
        self._until = until
        self._pause_seconds = client.random.choice(_PAUSES_SECONDS)

    def start(self) -> None:
        """Begin."""
        start(self._live())

    async def _live(self) -> None:
        random, timeline = self._client.random, self._client.world.timeline
        while True:
            await self._client.sleep(random.expovariate(1 / self._pause_seconds))
            if timeline.now >= self._until:
                return
            with suppress(RequestError):
                note = {"example.com/note": f"{timeline.now:.3f}"}
                await self._client.ask("PATCH", LEASE, {"metadata": {"annotations": note}})

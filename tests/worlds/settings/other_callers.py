"""Another scheduler that asks `serve`: its watch is ahead about nodes, and behind about pods.

It asks about pods of its own, which the cluster does not have, and only what changes nothing: how good nodes are, and
which pods would have to go.
"""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final

import httptools
import msgspec

from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import NODES, PODS
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.world import World

Object = dict[str, Any]

_PORT: Final = 8888
_BEGINS_SECONDS: Final = 30.0
_SECONDS_BETWEEN_CALLS: Final = 8.0
_TIMEOUT_SECONDS: Final = 5.0
# More than pods of the cluster have.
_PRIORITY: Final = 1000
_MOST_NODES: Final = 3
_MOST_VICTIMS: Final = 4
_CLAIMS_A_DEVICE: Final = 0.3
_DEVICE: Final = [{"name": "device", "resourceClaimName": "device"}]
# It knows of these before `serve` does, and of this pod after it is gone.
_NEW_NODES: Final = ("node-that-is-new", "node-that-is-new-too")
_GONE_POD: Final = "pod-that-is-gone"


class OtherCaller:
    """Asks now and then, until a time. A subclass has the `name` of its process, and other calls."""

    name: ClassVar[str] = "other-caller"

    def __init__(self, world: World, etcd: Etcd, address: str, until: float, *, preempts: bool) -> None:
        """`address` is that of `serve`. `preempts`: it asks that about preemption, too."""
        self._world = world
        self._etcd = etcd
        self._address = address
        self._until = until
        self._preempts = preempts
        self._random: Random = world.random(self.name.replace("-", " "))
        self._loop: SimulatedLoop = world.loop(self.name)
        self._task: asyncio.Task[None] | None = None
        self._asked = 0
        # By node, as it was at the last call.
        self._pods: Mapping[str, Sequence[str]] = {}

    def start(self) -> None:
        """Begin."""
        self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._live())

    async def _live(self) -> None:
        await asyncio.sleep(_BEGINS_SECONDS)  # until `serve` knows the cluster
        while True:
            await asyncio.sleep(self._random.expovariate(1 / _SECONDS_BETWEEN_CALLS))
            if self._world.timeline.now >= self._until:
                return
            verb, arguments = self._next_call()
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    status = await self._ask(verb, arguments)
                self._world.trace.write(self._loop.name, f"gets {status} for {verb}")
            except (OSError, TimeoutError) as error:
                self._world.trace.write(self._loop.name, f"gets no answer for {verb}: {type(error).__name__}")

    def _next_call(self) -> tuple[str, Object]:
        return self._preemption() if self._preempts and self._random.random() < 0.7 else self._priority()

    def _priority(self) -> tuple[str, Object]:
        known = [item.key for item in self._etcd.all(NODES)] if self._random.random() < 0.5 else []
        return "prioritize", {"Pod": self._pod(), "NodeNames": [*known, *_NEW_NODES]}

    def _preemption(self) -> tuple[str, Object]:
        """Name pods as they were at the last call, some of which have gone since."""
        pods, self._pods = self._pods, self._pods_by_node()
        names = self._random.sample(sorted(pods), min(_MOST_NODES, len(pods)))
        victims = {name: {"Pods": [{"UID": uid} for uid in self._some_of(pods[name])]} for name in names}
        return "preempt", {"Pod": self._pod(), "NodeNameToMetaVictims": victims}

    def _some_of(self, uids: Sequence[str]) -> list[str]:
        chosen = self._random.sample(uids, min(_MOST_VICTIMS, len(uids)))
        return [*chosen, _GONE_POD] if self._random.random() < 0.5 else chosen

    def _pods_by_node(self) -> Mapping[str, Sequence[str]]:
        by_node: dict[str, list[str]] = {}
        for item in self._etcd.all(PODS):
            if not is_finished(item.value) and (name := item.value["spec"].get("nodeName")):
                by_node.setdefault(name, []).append(item.value["metadata"]["uid"])
        return by_node

    def _pod(self) -> Object:
        self._asked += 1
        name = f"what-if-{self._asked}"
        container = {"name": "main", "image": "image-0:1", "resources": {"requests": {"cpu": "50m"}}}
        spec: Object = {"schedulerName": "default-scheduler", "priority": _PRIORITY, "containers": [container]}
        if self._random.random() < _CLAIMS_A_DEVICE:
            spec["resourceClaims"] = _DEVICE
        return {"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec, "status": {}}

    async def _ask(self, verb: str, arguments: Object) -> int:
        """Return the status of the answer. Raises OSError."""
        body, answered = msgspec.json.encode(arguments), self._loop.create_future()
        head = f"POST /{verb} HTTP/1.1\r\nhost: serve\r\ncontent-type: application/json\r\n"
        transport, _ = await self._loop.create_connection(lambda: _Exchange(answered), self._address, _PORT)
        try:
            transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            status: int = await answered
        finally:
            transport.close()
        return status


class _Exchange(asyncio.Protocol):
    """One answer: its status is what `answered` gets, or ConnectionResetError."""

    def __init__(self, answered: "asyncio.Future[int]") -> None:
        self._answered = answered
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(ConnectionResetError("no answer"))

    def on_message_complete(self) -> None:
        if not self._answered.done():
            self._answered.set_result(self._parser.get_status_code())

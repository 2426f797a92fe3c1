"""Who asks the service, one call after the other as kube-scheduler does, at a steady pace."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from extender_service.kube.resources.api_resources import NODES, PODS
from extender_service.kube.types.keys import Key
from tests.soak import visitors
from tests.soak.api_server import ApiServer
from tests.soak.churn import Churn
from tests.soak.visitors import Manifest

# Of so many calls, one each is of another kind than a filter call that names all nodes.
_TURN = 100
_WHOLE_NODES = 20
# Of so many pods that get a node, some are bound by another, some by the service, and one is asked about again.
_BINDINGS = 10
# Strangers are numbered from here.
_STRANGERS = 50_000_000


class Call(NamedTuple):
    """When a call began, by time.perf_counter, and how long it took."""

    verb: str
    started: float
    milliseconds: float


class Scheduler:
    """Calls about the pods that wait for a node, and about others that no watch ever shows.

    `answers` counts what came of calls: passed, refused, error.
    """

    def __init__(self, url: str, churn: Churn, api: ApiServer) -> None:
        self.calls: list[Call] = []
        self.answers: Counter[str] = Counter()
        self._churn = churn
        self._api = api
        self._connection = _Connection(url)
        self._binding = _Connection(url)
        self._bindings: set[asyncio.Task[None]] = set()
        self._strangers = _strangers()
        self._placed = 0
        self._names: tuple[list[str], msgspec.Raw] = ([], msgspec.Raw(b"[]"))

    async def run(self, calls_a_second: float, seconds: float) -> None:
        """Call at this pace; a call that takes long is made up for by those after it."""
        begin = time.perf_counter()
        made = 0
        while (now := time.perf_counter()) < begin + seconds:
            if made >= (now - begin) * calls_a_second:
                await asyncio.sleep(begin + made / calls_a_second - now)
                continue
            made += 1
            await self._call(made)
        await asyncio.gather(*self._bindings)

    async def _call(self, number: int) -> None:
        match number % _TURN:
            case 10:
                await self._ask("prioritize", next(self._strangers))
            case 30:
                await self._preempt(next(self._strangers))
            case 50:
                await self._ask("filter", next(self._strangers), whole=True)
            case _ if self._churn.pending:
                key = self._churn.pending.popleft()
                chosen = await self._ask("filter", self._churn.of(PODS)[key])
                if chosen and self._churn.is_bindable(key):
                    self._place(key, chosen)
            case _:
                await self._ask("filter", next(self._strangers))

    def _place(self, key: Key, node_name: str) -> None:
        self._placed += 1
        turn = self._placed % _BINDINGS
        if turn == 0:
            if key in self._churn.of(PODS):
                self._churn.pending.append(key)
        elif turn <= 3:
            task = asyncio.create_task(self._bind(key, node_name))
            self._bindings.add(task)
            task.add_done_callback(self._bindings.discard)
        else:
            event = self._churn.bind(key, node_name)
            if event is not None:
                self._api.tell(event)

    async def _ask(self, verb: str, pod: Manifest, *, whole: bool = False) -> str:
        """Ask where a pod may go; returns the node that was chosen for it, if any."""
        args: dict[str, object] = {"Pod": pod}
        if whole:
            nodes = list(self._churn.of(NODES).values())[-_WHOLE_NODES:]
            # The watch does not know this state of them.
            items = [{**node, "metadata": {**node["metadata"], "resourceVersion": "1"}} for node in nodes]
            args["Nodes"] = {"items": items}
        else:
            args["NodeNames"] = self._all_names()
        answer = await self._post(f"{verb}, whole nodes" if whole else verb, verb, args)
        if verb != "filter":
            return ""
        nodes_left = (answer["Nodes"] or {}).get("items") if whole else answer["NodeNames"]
        self.answers["error" if answer["Error"] else "passed" if nodes_left else "refused"] += 1
        return nodes_left[0] if nodes_left and not whole else ""

    async def _preempt(self, pod: Manifest) -> None:
        victims: dict[str, object] = {}
        for running in self._churn.of(PODS).values():
            node_name = running["spec"].get("nodeName")
            if node_name and running["metadata"].get("uid"):
                victims[node_name] = {"Pods": [{"UID": running["metadata"]["uid"]}]}
            if len(victims) == 5:
                break
        await self._post("preempt", "preempt", {"Pod": pod, "NodeNameToMetaVictims": victims})

    async def _bind(self, key: Key, node_name: str) -> None:
        pod = self._churn.of(PODS).get(key)
        if pod is not None:
            args = {"PodNamespace": key[0], "PodName": key[1], "PodUID": pod["metadata"]["uid"], "Node": node_name}
            answer = msgspec.json.decode(await self._binding.post("/bind", msgspec.json.encode(args)))
            self.answers["not bound" if answer["Error"] else "bound"] += 1

    async def _post(self, kind: str, verb: str, args: object) -> Any:
        body = msgspec.json.encode(args)
        started = time.perf_counter()
        answer = await self._connection.post(f"/{verb}", body)
        self.calls.append(Call(kind, started, (time.perf_counter() - started) * 1000))
        return msgspec.json.decode(answer)

    def _all_names(self) -> msgspec.Raw:
        names = self._churn.node_names
        if self._names[0] != names:
            self._names = (names, msgspec.Raw(msgspec.json.encode(names)))
        return self._names[1]


class _Connection:
    """One connection that is kept; requests wait for each other."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._turn = asyncio.Lock()
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request; returns the body of the answer, which must be a success."""
        async with self._turn:
            if self._open is None:
                self._open = await asyncio.open_connection(self._address.hostname, self._address.port, limit=1 << 20)
            reader, writer = self._open
            head = f"POST {path} HTTP/1.1\r\nHost: {self._address.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            answer = await reader.readexactly(length)
            if not lines[0].startswith(b"http/1.1 200"):
                raise RuntimeError(f"{path}: {lines[0].decode()}: {answer[:500]!r}")
            return answer


def _strangers() -> Iterator[Manifest]:
    """Pods that nothing belongs to: what is asked for about them is there for all who ask."""
    for number in iter(range(_STRANGERS, 2 * _STRANGERS)):
        visitor = visitors.visitor(number)
        if not visitor.belongings:
            yield visitor.pod

"""How an actor reaches the API server: requests that take time, may be refused, and may never be answered."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tests.worlds.actors.routines import Resume, Until
from tests.worlds.api_server.messages import Answer, Delayed, Request, Response, Watch
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World

Object = dict[str, Any]

# So long an actor waits for an answer. client-go tries a request again so often while the API server is overloaded.
_TIMEOUT_SECONDS: Final = 10.0
_MOST_TRIES: Final = 10
# Carrying out a request takes so long at least, and up to so much more.
_LEAST_SECONDS: Final = 200e-6
_MORE_SECONDS: Final = 10e-3
_CONTENT_TYPES: Final = {"PATCH": "application/strategic-merge-patch+json"}
# Nothing is written into the trace about what happens all the time.
_UNTRACED: Final = ("/leases", "/events")
_NODE_LEASES: Final = "/kube-node-lease/"


class RequestError(Exception):
    """A request was refused. `status` is 0 if there was no answer in time: it may have been carried out or not."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason


class ActorClient:
    """An actor's connection. Each has a name in the trace, and a random source of its own, at each start another.

    An actor that is stopped gets no answers and no events any more: what it was about to do is never done.
    `unsynced_views` counts those of its views that have not listed yet.
    """

    def __init__(self, world: World, servers: Sequence[ServedModel], name: str, start: int = 1) -> None:
        """`servers` are the API servers: each request goes to one of them, by chance."""
        self.name = name
        self.world = world
        self.random = world.random(f"actor {name}, start {start}")
        self.clocks = MachineClocks(world.timeline, skew_seconds=self.random.uniform(-2.0, 2.0))
        self.is_stopped = False
        self.unsynced_views = 0
        self._servers = servers
        self._watches: list[Watch] = []

    def stop(self) -> None:
        """End the actor's process."""
        self.is_stopped = True
        for watch in self._watches:
            watch.close()

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later, unless the actor is stopped by then."""

        def act() -> None:
            if not self.is_stopped:
                action()

        self.world.timeline.call_later(seconds, act)

    async def sleep(self, seconds: float) -> None:
        """Wait."""

        def register(resume: Resume) -> None:
            self.call_later(seconds, partial(resume, None))

        await Until[None](register)

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> Object:
        """Send a request and return the answer's object; patches are strategic merge patches. Raises RequestError.

        What an overloaded server refuses is tried again, as client-go does.
        """
        encoded = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": _CONTENT_TYPES.get(method, "application/json")}
        request = Request(method, path, query or {}, headers, encoded)
        for _ in range(_MOST_TRIES):
            answer: Answer = await Until(partial(self._send, self._any_server(), request))
            assert isinstance(answer, Response)
            if answer.status == 429 and (seconds := answer.headers.get("retry-after")):
                await self.sleep(float(seconds))
                continue
            if answer.status < 300:
                value: Object = answer.json()
                return value
            raise _error(answer)
        raise RequestError(429, "TooManyRequests")

    async def watch(
        self, path: str, query: Mapping[str, str], on_line: Callable[[bytes], None], lag: Callable[[], float]
    ) -> None:
        """Watch until the server ends it. Each line comes `lag` seconds later, in order. Raises RequestError."""
        request = Request("GET", path, {**query, "watch": "1"}, {}, b"")
        server = self._any_server()
        answer: Answer = await Until(partial(self._send, server, request))
        if isinstance(answer, Response):
            raise _error(answer)
        assert isinstance(answer, Watch)
        self._watches.append(answer)
        await Until[None](partial(self._follow, server, answer, on_line, lag))
        self._watches.remove(answer)

    def _follow(
        self,
        server: ServedModel,
        watch: Watch,
        on_line: Callable[[bytes], None],
        lag: Callable[[], float],
        resume: Resume,
    ) -> None:
        """Have lines arrive in their order, and the end after them."""
        arrived_at = 0.0

        def arrive(action: Callable[[], None]) -> None:
            nonlocal arrived_at
            not_before = max(arrived_at, self.world.timeline.now + lag())
            arrived_at = self.world.network.send(
                server.loop.name, self.name, partial(self._unless_stopped, action), not_before=not_before
            )

        watch.on_line = lambda line: arrive(partial(on_line, line))
        watch.on_end = lambda: arrive(partial(resume, None))
        if taken := watch.take():
            for line in taken.splitlines():
                watch.on_line(line)
        if watch.is_ended:
            watch.on_end()

    def _any_server(self) -> ServedModel:
        return self._servers[0] if len(self._servers) == 1 else self.random.choice(self._servers)

    def _send(self, server: ServedModel, request: Request, resume: Resume) -> None:
        is_over = False

        def end(outcome: Answer | RequestError) -> None:
            nonlocal is_over
            if not is_over and not self.is_stopped:
                is_over = True
                resume(outcome)
            elif isinstance(outcome, Watch):
                outcome.close()

        send = self.world.network.send
        send(self.name, server.loop.name, partial(self._arrive, server, request, end))
        self.world.timeline.call_later(_TIMEOUT_SECONDS, partial(end, RequestError(0, "no answer in time")))

    def _arrive(self, server: ServedModel, request: Request, end: Callable[[Answer | RequestError], None]) -> None:
        """Let the server's process carry it out, whether or not the actor still waits."""
        seconds = _LEAST_SECONDS + _MORE_SECONDS * self.random.random() ** 4
        if server.loop.is_closed():
            end(RequestError(0, "connection refused"))
        else:
            server.loop.call_later(seconds, self._go_on, server, request, partial(server.ask, request), end)

    def _go_on(
        self,
        server: ServedModel,
        request: Request,
        act: Callable[[], Answer],
        end: Callable[[Answer | RequestError], None],
    ) -> None:
        answer = act()
        if isinstance(answer, Delayed):
            server.loop.call_later(answer.seconds, self._go_on, server, request, answer.proceed, end)
            return
        if isinstance(answer, Response) and request.method != "GET" and not request.path.endswith(_UNTRACED):
            self._trace(server, request, answer)
        self.world.network.send(server.loop.name, self.name, partial(end, answer))

    def _trace(self, server: ServedModel, request: Request, answer: Response) -> None:
        """Write a line as of any request: what the API server did, and of whom."""
        if answer.status < 300 and _NODE_LEASES in request.path:
            return
        body = request.body[:300].decode(errors="replace")
        line = f"{answer.status} {request.method} {request.path} of {self.name} {body}"
        self.world.trace.write(server.loop.name, line)

    def _unless_stopped(self, action: Callable[[], None]) -> None:
        if not self.is_stopped:
            action()


def _error(answer: Response) -> RequestError:
    is_json = answer.headers.get("content-type") == "application/json"
    return RequestError(answer.status, answer.json().get("reason", "") if is_json else answer.body.decode())

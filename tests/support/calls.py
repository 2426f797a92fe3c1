"""An event loop with a test's own time, and callers that may hang up."""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
from fastapi import FastAPI

from extender_service.serving.scope import HUNG_UP
from tests.support.clock import Clock


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers go by a clock that stands still until a test moves it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def time(self) -> float:
        return self._clock.now

    def run_until_idle(self) -> None:
        """Run what can be run now: everything waits for something then."""
        while True:
            self.call_soon(self.stop)
            self.run_forever()
            if not self._ready:  # type: ignore[attr-defined]
                return


class Call:
    """One HTTP call of a verb, made as a server makes it: a caller who hangs up is noticed only by who asks."""

    def __init__(self, app: FastAPI, verb: str, body: Mapping[str, object]) -> None:
        self._app = app
        self._verb = verb
        self._parts: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}
        ]
        self._gone = asyncio.Event()
        self._sent = bytearray()

    def hang_up(self) -> None:
        self._gone.set()

    @property
    def is_heard(self) -> bool:
        """Whether the caller is still there."""
        return not self._gone.is_set()

    async def answer(self) -> Any:
        """Make the call and return the decoded answer, which nobody may hear any more."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/{self._verb}",
            "query_string": b"",
            "headers": [],
            "http_version": "1.1",
            HUNG_UP: self._gone.is_set,
        }
        await self._app(scope, self._receive, self._send)
        return msgspec.json.decode(self._sent)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._parts:
            return self._parts.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        else:
            self._sent += message["body"]

"""In place of a client, an API server where nothing happens, in virtual time: who asks how often, what is noticed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from extender_service.kube.api_errors import InvalidAnswerError, SilentError, UnreachableError
from extender_service.kube.connection.client import Page
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.resources.api_resources import Resource
from tests.support import virtual_time

BOOKMARK = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}).encode() + b"\n"


class QuietApiServer:
    """`requests` are the times of all requests, and which kind they ask for.

    Bookmarks come as the API server sends them: every minute, and 2 s before a watch ends. `cut_off`: for kinds by
    name, what was open at this time brings nothing any more. `quiet_limit`: what is on the way there closes
    connections over which nothing comes for so long. `is_down`: it refuses connections, and has closed all.
    `breaks_watches`: it accepts watches, and ends each with an error.
    """

    def __init__(self, *, has_bookmarks: bool = True, ends_watches: bool = True, quiet_limit: float = 1e9) -> None:
        self.requests: list[tuple[float, str]] = []
        self.opened: dict[str, float] = {}
        self.cut_off: dict[str, float] = {}
        self.is_away = False
        self.is_down = False
        self.breaks_watches = False
        self.has_bookmarks = has_bookmarks
        self._ends_watches = ends_watches
        self._quiet_limit = quiet_limit

    def cut(self, *plurals: str) -> None:
        """Let the watches of these kinds bring nothing any more, or of all kinds."""
        for plural in plurals or self.opened:
            self.cut_off[plural] = virtual_time.time()

    async def list_pages(
        self, resource: Resource[Any], *, silence_seconds: float, **_: Any
    ) -> AsyncGenerator[Page[Any], None]:
        await self._ask(resource, silence_seconds)
        yield Page((), "1")

    async def latest_version(self, resource: Resource[Any], *, silence_seconds: float) -> str:
        await self._ask(resource, silence_seconds)
        return "1"

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        resource_version: str,
        *,
        timeout_seconds: int,
        answer_seconds: float,
        **_: Any,
    ) -> AsyncIterator[EventStream[Any]]:
        await self._ask(resource, answer_seconds)
        self.opened[resource.plural] = virtual_time.time()
        chunks = self._chunks(resource.plural, timeout_seconds)
        yield EventStream(chunks, resource.frame_decoder, virtual_time.time)

    async def _ask(self, resource: Resource[Any], silence_seconds: float) -> None:
        self.requests.append((virtual_time.time(), resource.plural))
        if self.is_away:
            await asyncio.sleep(silence_seconds)
            raise SilentError("no answer came", silence_seconds)
        if self.is_down:
            raise UnreachableError("connection refused")
        await asyncio.sleep(0.005)

    async def _chunks(self, plural: str, timeout_seconds: int) -> AsyncIterator[bytes]:
        opened_at = heard_at = virtual_time.time()
        ends_at = opened_at + timeout_seconds if self._ends_watches else 1e9
        bookmark_at = min(opened_at + 60.0, ends_at - 2.0)
        if self.breaks_watches:
            raise InvalidAnswerError("an event cannot be decoded")
        while True:
            await asyncio.sleep(0.5)
            now = virtual_time.time()
            if now - heard_at >= self._quiet_limit or self.is_down:
                raise UnreachableError("cut off")
            if self.is_away or self.cut_off.get(plural, -1.0) >= opened_at:
                continue
            if self.has_bookmarks and now >= bookmark_at:
                heard_at = now
                bookmark_at = min(now + 60.0, ends_at - 2.0) if now < ends_at - 2.0 else 1e9
                yield BOOKMARK
            if now >= ends_at:
                return

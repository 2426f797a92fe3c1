"""The API server of a cluster that churns: lists, watches, and bindings; a handler for `http_server`."""

import asyncio
import json
import random
from collections import deque
from typing import Any

import msgspec

from extender_service.config.release import NEWEST_MINOR
from extender_service.kube.resources import api_resources as resources
from extender_service.kube.resources.api_resources import PODS, Resource
from tests.soak.churn import Churn, Event
from tests.support.servers.http_server import Request, Response

_RESOURCES = {item.path(): item for item in vars(resources).values() if isinstance(item, Resource)}
_BOOKMARK_SECONDS = 20.0
_MOST_PAGES = 32
# Changes of a kind that a watch may have missed and is still told of.
_HISTORY = 10_000

_encode = msgspec.json.Encoder().encode


class _Watch:
    """What an open watch has yet to be told."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.has_lines = asyncio.Event()


class ApiServer:
    """Serves the objects of a `Churn`; whoever changes them tells it."""

    def __init__(self, churn: Churn) -> None:
        self._churn = churn
        self._history: dict[str, deque[tuple[int, bytes]]] = {
            item.plural: deque(maxlen=_HISTORY) for item in _RESOURCES.values()
        }
        self._watches: dict[str, list[_Watch]] = {item.plural: [] for item in _RESOURCES.values()}
        self._pages: dict[str, tuple[int, list[Any]]] = {}
        self.event_count = 0

    def tell(self, event: Event) -> None:
        """Let the watches know of a change."""
        self.event_count += 1
        line = _encode({"type": event.type, "object": event.manifest}) + b"\n"
        plural = event.resource.plural
        self._history[plural].append((self._churn.version, line))
        for watch in self._watches[plural]:
            watch.lines.append(line)
            watch.has_lines.set()

    async def __call__(self, request: Request, response: Response) -> None:
        resource = _RESOURCES.get(request.path)
        if resource is not None and "watch" in request.query:
            await self._watch(resource, request.query, response)
        elif resource is not None:
            await self._list(resource, request.query, response)
        elif request.method == "POST" and request.path.endswith("/binding"):
            await self._bind(request, response)
        elif request.method == "GET" and "/pods/" in request.path:
            pod = self._churn.of(PODS).get(_key_in(request.path))
            await response.send_json(404 if pod is None else 200, _status(404) if pod is None else pod)
        elif request.path == "/version":
            await response.send_json(200, {"major": "1", "minor": str(NEWEST_MINOR)})
        else:  # an event
            await response.send_json(201, json.loads(request.body))

    async def _list(self, resource: Resource[Any], query: dict[str, str], response: Response) -> None:
        token = query.get("continue")
        if token is None:
            version, rest = self._churn.version, list(self._churn.of(resource).values())
        else:
            version, rest = self._pages.pop(token)
        limit = int(query["limit"])
        page, rest = rest[:limit], rest[limit:]
        metadata = {"resourceVersion": str(version)}
        if rest:
            token = metadata["continue"] = f"{resource.plural}-{random.getrandbits(64):x}"
            self._pages[token] = (version, rest)
            if len(self._pages) > _MOST_PAGES:  # whoever wants a version only asks for no second page
                del self._pages[next(iter(self._pages))]
        await response.send_json(200, {"metadata": metadata, "items": page})

    async def _watch(self, resource: Resource[Any], query: dict[str, str], response: Response) -> None:
        since = int(query["resourceVersion"])
        known = self._history[resource.plural]
        if len(known) == _HISTORY and known[0][0] > since + 1:
            await response.send_json(410, _status(410))
            return
        watch = _Watch([line for version, line in known if version > since])
        if watch.lines:
            watch.has_lines.set()
        self._watches[resource.plural].append(watch)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(query["timeoutSeconds"])
        try:
            await response.start_chunks()
            while (left := end - loop.time()) > 0:
                try:
                    await asyncio.wait_for(watch.has_lines.wait(), min(left, _BOOKMARK_SECONDS))
                except TimeoutError:
                    bookmark = {"metadata": {"resourceVersion": str(self._churn.version)}}
                    watch.lines.append(_encode({"type": "BOOKMARK", "object": bookmark}) + b"\n")
                watch.has_lines.clear()
                lines, watch.lines = watch.lines, []
                await response.send_chunk(b"".join(lines))
            await response.end_chunks()
        finally:
            self._watches[resource.plural].remove(watch)

    async def _bind(self, request: Request, response: Response) -> None:
        event = self._churn.bind(_key_in(request.path), json.loads(request.body)["target"]["name"])
        if event is None:
            await response.send_json(409, _status(409))
            return
        self.tell(event)
        await response.send_json(201, _status(201))


def _key_in(path: str) -> tuple[str, str]:
    """Namespace and name in /api/v1/namespaces/NAMESPACE/pods/NAME and what lies beneath."""
    parts = path.split("/")
    return parts[4], parts[6]


def _status(code: int) -> dict[str, object]:
    reason = {404: "NotFound", 409: "Conflict", 410: "Expired"}.get(code, "")
    return {"kind": "Status", "code": code, "reason": reason, "message": reason}

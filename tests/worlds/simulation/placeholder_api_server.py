"""A small API server: lists, watches, bindings, status, leases and events, without any check.

To be replaced by the model of tests/worlds/api_server.
"""

import heapq
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender_service.kube.writing.timestamps import rfc3339
from tests.worlds.api_server.messages import Answer, Request, Response, Watch

Object = dict[str, Any]

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)


class PlaceholderApiServer:
    """Objects by kind and key, and the watches on them. `clock` returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.version = 1
        self.objects: dict[str, dict[str, Object]] = {}
        self._clock = clock
        self._opened = 0
        self._ends: list[tuple[float, int, Watch]] = []
        self._changes: list[tuple[str, str, Object]] = []
        self._watches: dict[str, list[Watch]] = {}

    def put(self, plural: str, thing: Object) -> Object:
        """Create or change an object, from outside."""
        metadata = thing.setdefault("metadata", {})
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        stored = self.objects.setdefault(plural, {})
        change = "MODIFIED" if key in stored else "ADDED"
        self.version += 1
        metadata.setdefault("uid", f"uid-{self.version}")
        thing = {**thing, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        stored[key] = thing
        self._report(plural, change, thing)
        return thing

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete an object, from outside."""
        gone = self.objects.get(plural, {}).pop(f"{namespace}/{name}", None)
        if gone is not None:
            self.version += 1
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
            self._report(plural, "DELETED", gone)

    def due_at(self) -> float:
        """Return when a watch ends."""
        return self._ends[0][0] if self._ends else math.inf

    def step(self) -> None:
        """End the watches that are due."""
        while self.due_at() <= self._clock():
            heapq.heappop(self._ends)[2].end()

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        if request.path == "/version":
            return _json(200, {"major": "1", "minor": "31"})
        found = _PATH.fullmatch(request.path)
        if found is None:
            return _refusal(404, "NotFound")
        plural, namespace, name = found["plural"], found["namespace"] or "", found["name"]
        if name is None:
            return self._collection(request, plural, namespace)
        thing = self.objects.get(plural, {}).get(f"{namespace}/{name}")
        if thing is None:
            return _refusal(404, "NotFound")
        return self._object(request, plural, thing, found["subresource"])

    def _collection(self, request: Request, plural: str, namespace: str) -> Answer:
        if request.method == "POST":
            made = msgspec.json.decode(request.body)
            if plural.endswith("reviews"):
                return _json(201, {**made, "status": {"allowed": True}})
            if namespace:
                made["metadata"]["namespace"] = namespace
            if f"{namespace}/{made['metadata']['name']}" in self.objects.get(plural, {}):
                return _refusal(409, "AlreadyExists")
            made["metadata"].setdefault("creationTimestamp", rfc3339(self._clock()))
            return _json(201, self.put(plural, made))
        if request.query.get("watch"):
            return self._watch(plural, request.query)
        items = list(self.objects.get(plural, {}).values())
        return _json(200, {"metadata": {"resourceVersion": str(self.version)}, "items": items})

    def _object(self, request: Request, plural: str, thing: Object, subresource: str | None) -> Answer:
        metadata = thing["metadata"]
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "GET":
            return _json(200, thing)
        if request.method == "DELETE":
            self.remove(plural, metadata.get("namespace", ""), metadata["name"])
            return _json(200, {"kind": "Status", "status": "Success"})
        if subresource == "binding":
            if thing["spec"].get("nodeName") or body["metadata"]["uid"] != metadata["uid"]:
                return _refusal(409, "Conflict")
            self.put(plural, {**thing, "spec": {**thing["spec"], "nodeName": body["target"]["name"]}})
            return _json(201, {"kind": "Status", "status": "Success"})
        if request.method == "PUT":
            if body["metadata"].get("resourceVersion", metadata["resourceVersion"]) != metadata["resourceVersion"]:
                return _refusal(409, "Conflict")
            return _json(200, self.put(plural, body))
        return _json(200, self.put(plural, _merged(thing, body)))

    def _watch(self, plural: str, query: Mapping[str, str]) -> Watch:
        watches = self._watches.setdefault(plural, [])
        watch = Watch(lambda closed: watches.remove(closed) if closed in watches else None)
        watches.append(watch)
        since = int(query["resourceVersion"])
        for its, change, thing in self._changes:
            if its == plural and int(thing["metadata"]["resourceVersion"]) > since:
                watch.send(_line(change, thing))
        self._opened += 1
        heapq.heappush(self._ends, (self._clock() + float(query["timeoutSeconds"]), self._opened, watch))
        return watch

    def _report(self, plural: str, change: str, thing: Object) -> None:
        self._changes.append((plural, change, thing))
        for watch in list(self._watches.get(plural, ())):
            watch.send(_line(change, thing))


def _merged(old: Any, patch: Any) -> Any:
    """Merge a patch; a list of conditions by type, as strategic merge patches do."""
    if isinstance(old, dict) and isinstance(patch, dict):
        merged = {**old, **{key: _merged(old.get(key), value) for key, value in patch.items()}}
        return {key: value for key, value in merged.items() if value is not None and not key.startswith("$")}
    if isinstance(old, list) and isinstance(patch, list) and all("type" in each for each in patch):
        return list(({each["type"]: each for each in old} | {each["type"]: each for each in patch}).values())
    return patch


def _line(change: str, thing: Object) -> bytes:
    return msgspec.json.encode({"type": change, "object": thing}) + b"\n"


def _json(status: int, body: object) -> Response:
    return Response(status, msgspec.json.encode(body))


def _refusal(status: int, reason: str) -> Response:
    return _json(status, {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": reason})

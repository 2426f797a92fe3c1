"""The API server's part in list and watch of pods, with faults on demand; a handler for `http_server`."""

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tests.support.servers.http_server import Request, Response

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
INTERNAL = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is tired"}
THROTTLED = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow down"}
UNAVAILABLE = {"kind": "Status", "code": 503, "reason": "ServiceUnavailable", "message": "etcd has no leader"}
UNAUTHORIZED = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
FORBIDDEN = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}
TOO_LARGE = {
    "kind": "Status",
    "code": 504,
    "reason": "Timeout",
    "message": "Too large resource version: 99, current: 5",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
}

# A watch loses its connection in one of these ways, or the server refuses in one of those.
BREAKS = ("close", "cut", "stall", "half an event", "garbage", "no version", "expired", "internal error", "throttled")
REFUSALS = (EXPIRED, INTERNAL, THROTTLED, UNAVAILABLE, UNAUTHORIZED, FORBIDDEN, TOO_LARGE)


class FakeApiServer:
    """The API server's part in list and watch of pods: versions, history, pages, bookmarks, and faults on demand."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 100
        self.requests: list[dict[str, str]] = []
        self.list_refusals: list[dict[str, Any]] = []
        self.page_refusals: list[dict[str, Any]] = []
        self.watch_refusals: list[dict[str, Any]] = []
        self.retry_after: str | None = None
        self.repeats_events = False
        self.open_watches = 0
        self._uids = itertools.count(1)
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self._oldest_known = 100
        self._snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._break = ""
        self._changed = asyncio.Event()

    def put(
        self,
        name: str,
        *,
        recreate: bool = False,
        metadata: Mapping[str, Any] = {},
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a pod, or change it; a pod that is created again has another UID."""
        if recreate:
            self.delete(name)
        old = self.pods.get(("default", name))
        uid = old["metadata"]["uid"] if old else f"uid-{next(self._uids)}"
        shown = {"namespace": "default", "name": name, "uid": uid, **metadata}
        self._record("MODIFIED" if old else "ADDED", shown, spec)

    def delete(self, name: str) -> None:
        if old := self.pods.get(("default", name)):
            self._record("DELETED", old["metadata"], old["spec"])

    def garble(self) -> None:
        """Send watches an event that cannot be decoded, and once more whenever one is opened before it."""
        self.version += 1
        self._append("MODIFIED", {"metadata": 7})

    def bookmark(self) -> None:
        """Tell watches how far they are, after changes that do not concern them."""
        self.version += 10
        self._append("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}, "spec": {"containers": None}})

    def compact(self) -> None:
        """Forget the past: older resource versions and continue tokens have expired, as does a watch that is behind."""
        self._oldest_known = self.version
        self._history.clear()
        self._snapshots.clear()

    def restore(self, pods: Iterable[str]) -> None:
        """Go back to an earlier state of etcd, where versions are lower."""
        self.pods.clear()
        self.version = 10
        for name in pods:
            self.put(name)
        self.compact()

    def break_watches(self, how: str) -> None:
        self._break = how
        self._wake()

    def _record(self, kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any] | None) -> None:
        self.version += 1
        key = (metadata["namespace"], metadata["name"])
        pod = {
            "metadata": {**metadata, "resourceVersion": str(self.version)},
            "spec": {"nodeName": f"node-{self.version}"} if spec is None else spec,
        }
        if kind == "DELETED":
            del self.pods[key]
        else:
            self.pods[key] = pod
        self._append(kind, pod)

    def _append(self, kind: str, obj: dict[str, Any]) -> None:
        self._history.append((self.version, kind, obj))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, request: Request, response: Response) -> None:
        assert request.path == "/api/v1/pods"
        self.requests.append(request.query)
        watching = "watch" in request.query
        paging = "continue" in request.query
        refusals = self.watch_refusals if watching else self.page_refusals if paging else self.list_refusals
        if refusals:
            refusal = refusals.pop(0)
            headers = {"Retry-After": self.retry_after} if self.retry_after else {}
            await response.send_json(refusal["code"], refusal, headers)
        elif watching:
            await self._serve_watch(int(request.query["resourceVersion"]), response)
        else:
            await self._serve_list(int(request.query["limit"]), request.query.get("continue"), response)

    async def _serve_list(self, limit: int, token: str | None, response: Response) -> None:
        if token is None:
            version, rest = self.version, list(self.pods.values())
        elif token in self._snapshots:
            version, rest = self._snapshots[token]
        else:
            await response.send_json(410, EXPIRED)
            return
        page, rest = rest[:limit], rest[limit:]
        meta = {"resourceVersion": str(version)}
        if rest:
            meta["continue"] = f"{version}-{len(rest)}"
            self._snapshots[meta["continue"]] = (version, rest)
        body = msgspec.json.encode({"kind": "PodList", "metadata": meta, "items": page})
        await response.send_head(200, {"Content-Length": str(len(body))})
        await response.send_raw(body)

    async def _serve_watch(self, version: int, response: Response) -> None:
        if version < self._oldest_known:
            await response.send_json(410, EXPIRED)
            return
        await response.start_chunks()
        self.open_watches += 1
        try:
            while True:
                changed = self._changed
                how, self._break = self._break, ""
                if how:
                    await self._end_watch(how, response)
                    return
                if version < self._oldest_known:
                    await self._end_watch("expired", response)
                    return
                for at, kind, obj in [item for item in self._history if item[0] > version]:
                    line = msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
                    for part in (line[:7], line[7:], line if self.repeats_events else b""):
                        if part:
                            await response.send_chunk(part)
                    version = at
                await changed.wait()
        finally:
            self.open_watches -= 1

    async def _end_watch(self, how: str, response: Response) -> None:
        match how:
            case "close":
                await response.end_chunks()
            case "cut":
                response.cut()
            case "stall":
                await asyncio.sleep(3600)
            case "half an event":
                await response.send_chunk(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
                await response.end_chunks()
            case "garbage":
                await response.send_chunk(b"<html>gateway</html>\n")
                await response.end_chunks()
            case "no version":
                await response.send_chunk(
                    b'{"type":"ADDED","object":{"metadata":{"name":"p","namespace":"default"}}}\n'
                )
                await response.end_chunks()
            case "expired" | "internal error" | "throttled":
                status = {"expired": EXPIRED, "internal error": INTERNAL, "throttled": THROTTLED}[how]
                await response.send_chunk(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
                await response.end_chunks()

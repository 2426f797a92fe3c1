"""An API server's part in listing, watching and binding: a cluster in which every pod that is bound soon starts anew.

The real one would do (tests/e2e), but a run binds thousands of pods, and the cluster is to be the same all the time.
"""

import asyncio
import contextlib
import json
import threading
from collections import defaultdict, deque
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from extender_service.config.release import NEWEST_MINOR
from tests.fuzz.cluster import FuzzedCluster, Object
from tests.support.servers.http_server import Request, Response, http_server

_BOUND_SECONDS = 0.5
_VERSION = {"major": "1", "minor": str(NEWEST_MINOR)}
_NOT_FOUND = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
_CONFLICT = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object is another one now"}


class StubApi:
    """Serves a cluster in a thread of its own, as a context manager; `url` is where.

    `uids` has those of all pods that there ever were.
    """

    def __init__(self, cluster: FuzzedCluster) -> None:
        self._objects: dict[str, dict[str, Object]] = defaultdict(dict)
        # The last changes of each kind, with their versions: more than there can be between two watches.
        self._history: dict[str, deque[tuple[int, bytes]]] = defaultdict(lambda: deque(maxlen=1000))
        self._changed = asyncio.Event()
        self._version = 1000
        for obj in cluster.objects:
            self._put(obj)
        self.uids = {pod["metadata"]["uid"] for pod in (*cluster.running, *cluster.pending)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        entering = self._stack.enter_async_context(http_server(self._serve))
        self.url = asyncio.run_coroutine_threadsafe(entering, self._loop).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def pod(self, namespace: str, name: str) -> Object | None:
        """A pod as it is now, None while it is gone."""
        return self._objects["pods"].get(f"{namespace}/{name}")

    async def _serve(self, request: Request, response: Response) -> None:
        if request.path == "/version":
            await response.send_json(200, _VERSION)
            return
        plural, name, subresource = _resource(request.path)
        obj = self._objects[plural].get(name)
        if request.method == "GET" and not name:
            if "watch" in request.query:
                await self._watch(plural, request, response)
            else:
                await self._list(plural, response)
        elif obj is None:
            await response.send_json(404, _NOT_FOUND)
        elif request.method == "GET":
            await response.send_json(200, obj)
        elif subresource == "binding":
            await self._bind(obj, json.loads(request.body), response)
        else:
            await response.send_json(409, _CONFLICT)

    async def _list(self, plural: str, response: Response) -> None:
        items = list(self._objects[plural].values())
        await response.send_json(200, {"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _watch(self, plural: str, request: Request, response: Response) -> None:
        """Tell what has changed since a version, and what changes, until the time is up."""
        version = int(request.query["resourceVersion"])
        deadline = self._loop.time() + int(request.query["timeoutSeconds"])
        await response.start_chunks()
        while (left := deadline - self._loop.time()) > 0:
            changed = self._changed
            for number, event in [change for change in self._history[plural] if change[0] > version]:
                await response.send_chunk(event)
                version = number
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left)
        await response.end_chunks()

    async def _bind(self, pod: Object, binding: Object, response: Response) -> None:
        is_same = binding["metadata"]["uid"] == pod["metadata"]["uid"]
        if not is_same or pod["spec"].get("nodeName"):
            await response.send_json(409, _CONFLICT)
            return
        if binding["target"]["name"] not in self._objects["nodes"]:
            await response.send_json(404, _NOT_FOUND)
            return
        spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
        self._put({**pod, "spec": spec})
        self._loop.call_later(_BOUND_SECONDS, self._start_anew, pod)
        await response.send_json(201, {"kind": "Status", "status": "Success"})

    def _start_anew(self, pod: Object) -> None:
        self._put(self._objects["pods"][_name(pod)], "DELETED")
        uid = f"uid-{pod['metadata']['name']}-{self._version}"
        self.uids.add(uid)
        self._put({**pod, "metadata": {**pod["metadata"], "uid": uid}})

    def _put(self, obj: Object, change: str = "MODIFIED") -> None:
        """Change an object, or put a new one in, or remove one."""
        self._version += 1
        plural, name = _plural(obj["kind"]), _name(obj)
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        if change == "DELETED":
            del self._objects[plural][name]
        else:
            change = change if name in self._objects[plural] else "ADDED"
            self._objects[plural][name] = obj
        self._history[plural].append((self._version, json.dumps({"type": change, "object": obj}).encode() + b"\n"))
        self._changed.set()
        self._changed = asyncio.Event()


def _resource(path: str) -> tuple[str, str, str]:
    """The plural name that a path has, the object's name with its namespace, if any, and the subresource."""
    _, group, *parts = path.strip("/").split("/")
    if group != "v1":
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1] + "/", parts[2:]
    plural, name, subresource, *_ = [*parts, "", ""]
    return plural, name and namespace + name, subresource


def _plural(kind: str) -> str:
    """As the API has it in paths."""
    singular = kind.lower()
    if singular.endswith("y"):
        return singular[:-1] + "ies"
    return singular + ("es" if singular.endswith("s") else "s")


def _name(obj: Any) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])

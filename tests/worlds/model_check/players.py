"""Play a script on the model, or on a real API server, and note what it answers."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from tests.e2e.support.waiting import wait_until
from tests.worlds.api_server.messages import Answer, Delayed, Request, Response, Watch
from tests.worlds.api_server.server import ApiServer
from tests.worlds.model_check.script import LAST, Script, Seen, Step, body_of, url_path

Object = dict[str, Any]
Events = list[Object]

_SECONDS = 20.0
_POLL_SECONDS = 0.005
_NODES, _PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
_JSON, _STRATEGIC = "application/json", "application/strategic-merge-patch+json"
# Far from all other numbers that stand in texts.
_FIRST_VERSION = 7_000_000


@dataclass(frozen=True)
class Outcome:
    """What a step was answered: a status and the decoded body; for a watch its events up to the last object."""

    step: Step
    status: int
    body: Any
    events: Events | None = None


class _OpenWatch(Protocol):
    def events(self) -> Events: ...


class _Server(Protocol):
    def send(
        self, method: str, path: str, query: dict[str, str], body: bytes, content_type: str
    ) -> tuple[int, Any]: ...

    def watch(self, path: str, query: dict[str, str]) -> tuple[int, Any, _OpenWatch | None]: ...

    def catch_up(self, path: str) -> None: ...

    def catch_up_admission(self) -> None: ...

    def await_next_second(self) -> None: ...


def play(script: Script, server: _Server) -> list[Outcome]:
    """Run a script, and return what each step was answered."""
    seen = Seen(script.namespace)
    outcomes: list[Outcome] = []
    watches: list[tuple[Step, int, _OpenWatch]] = []
    for step in (_namespace_step(), *script.steps):
        path, query = url_path(step, seen), {key: seen.text(value) for key, value in step.query.items()}
        if _reads_cache(step):
            server.catch_up(url_path_of_collection(step, seen))
        if step.path.endswith("/resize"):
            server.catch_up_admission()
        if step.path.startswith("v1/pods") and not step.is_watch and step.method != "GET":
            server.await_next_second()
        if step.is_watch:
            status, body, watch = server.watch(path, query)
            if watch is not None:
                watches.append((step, status, watch))
                continue
        else:
            sent = body_of(step, seen)
            encoded = sent.encode() if isinstance(sent, str) else b"" if sent is None else json.dumps(sent).encode()
            status, body = server.send(step.method, path, query, encoded, step.content_type)
            seen.note(step, body)
        outcomes.append(Outcome(step, status, body))
    for step, status, watch in watches:
        outcomes.append(Outcome(step, status, None, watch.events()))
    return sorted(outcomes, key=lambda outcome: outcome.step.number)


def _namespace_step() -> Step:
    body = {"metadata": {"name": "{ns}"}}
    return Step(-1, "POST", "v1/namespaces", body, is_namespaced=False)


def _reads_cache(step: Step) -> bool:
    """Whether the answer depends on how far the server's watch cache is.

    That of a deletion does: the grace period that it takes from a pod in the cache that is not bound yet stays when the
    API server then reads the pod from etcd, where it is bound.
    """
    if step.method == "DELETE" or step.path.endswith("/eviction"):
        return True
    version = step.query.get("resourceVersion", "")
    return step.is_watch or (bool(version) and step.query.get("resourceVersionMatch") != "Exact")


def url_path_of_collection(step: Step, seen: Seen) -> str:
    """Return the path of the list that a read belongs to."""
    parts = step.path.split("/")
    length = 2 if parts[0] == "v1" else 3
    collection = Step(step.number, "GET", "/".join(parts[:length]), is_namespaced=step.is_namespaced)
    return url_path(collection, seen)


def _until_last(events: Iterator[Object]) -> Events:
    """Return events up to the one about the last object, or to an error."""
    taken: Events = []
    for event in events:
        if event["type"] == "BOOKMARK" and not (event["object"]["metadata"].get("annotations") or {}):
            continue  # comes by the clock
        taken.append(event)
        if event["type"] == "ERROR" or event["object"]["metadata"].get("name", "").startswith(LAST):
            break
    return taken


class ModelServer:
    """The model, with a clock that moves on by a second with each request. Version 1 is gone, as on the real one."""

    def __init__(self, minor: int, first_version: int = _FIRST_VERSION) -> None:
        self._now = 1_700_000_000.0
        self._server = ApiServer(lambda: self._now, Random(0), minor=minor)
        self._server.etcd.revision = first_version
        self._server.watches.restart()
        self._server.etcd.compact(first_version)

    def send(self, method: str, path: str, query: dict[str, str], body: bytes, content_type: str) -> tuple[int, Any]:
        self._now += 1.0
        self._server.step()
        answer = self._wait(self._server.handle(Request(method, path, query, {"content-type": content_type}, body)))
        assert isinstance(answer, Response)
        return answer.status, answer.json()

    def watch(self, path: str, query: dict[str, str]) -> "tuple[int, Any, ModelWatch | None]":
        answer = self._wait(self._server.handle(Request("GET", path, query)))
        if isinstance(answer, Watch):
            return 200, None, ModelWatch(answer)
        return answer.status, answer.json(), None

    def catch_up(self, path: str) -> None:
        """The model is never behind."""

    def catch_up_admission(self) -> None:
        """Admission reads etcd in the model."""

    def await_next_second(self) -> None:
        """Each request comes in a second of its own."""

    def _wait(self, answer: Answer) -> Response | Watch:
        while isinstance(answer, Delayed):
            self._now += answer.seconds
            answer = answer.proceed()
        return answer


class ModelWatch:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def events(self) -> Events:
        return _until_last(json.loads(line) for line in self._watch.take().splitlines())


class RealServer:
    """A real API server, over one connection and one more for each watch. A context manager.

    With `is_paced`, each write of a pod comes in a second of its own.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, token: str, *, is_paced: bool = False) -> None:
        self._address = urlsplit(url).netloc
        self._tls = tls
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "model-check"}
        self._is_paced = is_paced
        self._http = self._connect()
        self._watches: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close_watches()
        self._http.close()

    def close_watches(self) -> None:
        for connection in self._watches:
            connection.close()
        self._watches.clear()

    def send(self, method: str, path: str, query: dict[str, str], body: bytes, content_type: str) -> tuple[int, Any]:
        headers = {**self._headers, "Content-Type": content_type} if body else self._headers
        self._http.request(method, _target(path, query), body or None, headers)
        answer = self._http.getresponse()
        return answer.status, _json(answer.read())

    def watch(self, path: str, query: dict[str, str]) -> "tuple[int, Any, RealWatch | None]":
        connection = self._connect()
        self._watches.append(connection)
        connection.request("GET", _target(path, query), headers=self._headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            return answer.status, _json(answer.read()), None
        return answer.status, None, RealWatch(answer)

    def catch_up(self, path: str) -> None:
        """Wait until the watch cache of this kind has all that was written: also what was deleted."""
        nothing = {"labelSelector": "no=thing"}
        status, body = self.send("GET", path, nothing, b"", "")
        if status == http.client.OK:
            version = body["metadata"]["resourceVersion"]
            not_older = {**nothing, "resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
            status, body = self.send("GET", path, not_older, b"", "")
        if status != http.client.OK:
            raise RuntimeError(f"{path} did not reach the latest version: {body}")

    def catch_up_admission(self) -> None:
        """Wait until admission knows of all nodes that were written or deleted.

        It sees nodes through an informer, in their order. So one more is made: once admission lets a pod on that node
        be resized, it knows of all others.
        """
        name = f"canary-{uuid4()}"
        path = f"{_PODS}/{name}"
        node = {"metadata": {"name": name}, "status": {"capacity": {"cpu": "2"}}}
        self._require("POST", _NODES, {}, node, http.client.CREATED)
        pod = {"metadata": {"name": name}, "spec": {"nodeName": name, "containers": [_canary("1")]}}
        self._require("POST", _PODS, {}, pod, http.client.CREATED)
        larger = json.dumps({"spec": {"containers": [_canary("2")]}}).encode()

        def is_admitted() -> bool:
            return self.send("PATCH", f"{path}/resize", {"dryRun": "All"}, larger, _STRATEGIC)[0] == http.client.OK

        wait_until(is_admitted, "admission to know a new node", every_seconds=_POLL_SECONDS)
        for made in (path, f"{_NODES}/{name}"):
            self._require("DELETE", made, {"gracePeriodSeconds": "0"}, None, http.client.OK)

    def await_next_second(self) -> None:
        """Let no write of a pod have the time of the one before in managedFields, which are in the order of times."""
        if self._is_paced:
            time.sleep(1.0 - time.time() % 1.0)

    def _require(self, method: str, path: str, query: dict[str, str], body: Object | None, expected: int) -> None:
        encoded = b"" if body is None else json.dumps(body).encode()
        status, answer = self.send(method, path, query, encoded, _JSON)
        if status != expected:
            raise RuntimeError(f"{method} {path}: {answer}")

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, timeout=_SECONDS, context=self._tls)


class RealWatch:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def events(self) -> Events:
        return _until_last(self._read())

    def _read(self) -> Iterator[Object]:
        try:
            while line := self._answer.readline():
                yield json.loads(line)
        except TimeoutError:
            yield {"type": "ERROR", "object": {"metadata": {}, "message": "the last object did not come"}}


Connect = Callable[[], RealServer]


def _canary(cpu: str) -> Object:
    return {"name": "main", "image": "registry.example/main:1", "resources": {"requests": {"cpu": cpu}}}


def _target(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return {"text": body.decode(errors="replace")}

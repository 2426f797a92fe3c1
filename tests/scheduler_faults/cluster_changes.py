"""What else changes meanwhile: pods are created, and nodes come, go, are cordoned and uncordoned.

The API server may be down at any time, so each change is tried until it is made.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

import httpx

from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object
from tests.scheduler_faults.population import visiting_node

_AGAIN_SECONDS = 0.1
_CHANGE_EVERY_SECONDS = 0.2
_TRIES_SECONDS = 60.0


def persistently(api: API, method: str, path: str, body: Object | None = None) -> Object | None:
    """Send a write until the API server has carried it out, perhaps by a try whose answer was lost.

    Return the object afterwards; None once it is deleted.
    """
    give_up_at = time.monotonic() + _TRIES_SECONDS
    while True:
        try:
            return api.request(method, path, body)
        except APIError as error:
            if method == "DELETE" and error.status_code == 404:
                return None
            if method == "POST" and error.status_code == 409:
                assert body is not None
                path = f"{path}/{body['metadata']['name']}"
                method, body = "GET", None
            elif (error.status_code < 500 and error.status_code != 429) or time.monotonic() > give_up_at:
                raise
        except httpx.TransportError:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(_AGAIN_SECONDS)


class NodeHistory:
    """Every version of every node, by name and resource version. All changes of nodes must be reported to it."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], Object] = {}

    def add(self, node: Object) -> None:
        """Take in a node as the API server answered."""
        metadata = node["metadata"]
        self._versions[metadata["name"], metadata["resourceVersion"]] = node

    def find(self, name: str, resource_version: str) -> Object | None:
        """Return the node at a version; None if there was no such version."""
        return self._versions.get((name, resource_version))


class ClusterChanges:
    """Changes nodes in a thread of its own, for as long as the context lasts; in the end, all nodes are uncordoned.

    `lost` are the pods that went with their nodes (namespace/name), with the node of each.
    """

    def __init__(self, api: API, history: NodeHistory, names: list[str], seed: int) -> None:
        """`names` are those of the nodes that stay."""
        self.lost: dict[str, str] = {}
        self.counts = dict.fromkeys(("came", "went", "cordoned", "uncordoned"), 0)
        self._api = api
        self._history = history
        self._names = names
        self._random = random.Random(seed)
        self._most_visitors, self._most_cordoned = max(2, len(names) // 50), max(2, len(names) // 20)
        self._visitors: list[str] = []
        self._cordoned: list[str] = []
        self._thread = _Thread(self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.end()

    def _run(self, is_over: threading.Event) -> None:
        while not is_over.wait(_CHANGE_EVERY_SECONDS):
            self._change_something()
        while self._cordoned:
            self._cordon(self._cordoned.pop(), "uncordoned")

    def _change_something(self) -> None:
        chance = self._random
        what = chance.choice(["came", "went", "cordoned", "uncordoned"])
        if what == "came" and len(self._visitors) < self._most_visitors:
            self._come()
        elif what == "went" and self._visitors:
            self._go(self._visitors.pop(chance.randrange(len(self._visitors))))
        elif what == "cordoned" and len(self._cordoned) < self._most_cordoned:
            name = chance.choice(self._names)
            if name not in self._cordoned:
                self._cordoned.append(name)
                self._cordon(name, what)
        elif what == "uncordoned" and self._cordoned:
            self._cordon(self._cordoned.pop(chance.randrange(len(self._cordoned))), what)

    def _come(self) -> None:
        self.counts["came"] += 1
        wanted = visiting_node(self.counts["came"])
        created = persistently(self._api, "POST", self._api.path("Node"), wanted)
        assert created is not None
        self._history.add(created)
        self._visitors.append(wanted["metadata"]["name"])

    def _cordon(self, name: str, what: str) -> None:
        self.counts[what] += 1
        path, patch = f"{self._api.path('Node')}/{name}", {"spec": {"unschedulable": what == "cordoned" or None}}
        changed = persistently(self._api, "PATCH", path, patch)
        assert changed is not None
        self._history.add(changed)

    def _go(self, name: str) -> None:
        """Delete a node, and then its pods, as the garbage collector of pods does."""
        self.counts["went"] += 1
        persistently(self._api, "DELETE", f"{self._api.path('Node')}/{name}")
        self.collect(lambda node: node == name)

    def collect(self, is_gone: Callable[[str], bool]) -> None:
        """Delete the pods on nodes that are gone."""
        listed = persistently(self._api, "GET", f"{self._api.path('Pod')}?fieldSelector=spec.nodeName!%3D")
        assert listed is not None
        for pod in listed["items"]:
            node, metadata = pod["spec"]["nodeName"], pod["metadata"]
            if is_gone(node):
                self.lost[f"{metadata['namespace']}/{metadata['name']}"] = node
                path = f"{self._api.path('Pod', metadata['namespace'])}/{metadata['name']}"
                persistently(self._api, "DELETE", path, {"gracePeriodSeconds": 0})


@contextmanager
def pods_being_created(api: API, pods: Iterable[Object], over_seconds: float) -> Iterator[list[Object]]:
    """Create pods, spread over this time; the context ends when all are created. The list has those that are."""
    wanted, created = [*pods], list[Object]()
    pause_seconds = over_seconds / max(1, len(wanted))

    def create(_: threading.Event) -> None:
        began_at = time.monotonic()
        for number, pod in enumerate(wanted):
            time.sleep(max(0.0, began_at + number * pause_seconds - time.monotonic()))
            answer = persistently(api, "POST", api.path("Pod", pod["metadata"]["namespace"]), pod)
            assert answer is not None
            created.append(answer)

    thread = _Thread(create)
    thread.start()
    try:
        yield created
    finally:
        thread.end()


class _Thread:
    """Runs `work` in a thread, and raises what it raised."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._work = work
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work(self._is_over)
        except BaseException as error:
            self._error = error

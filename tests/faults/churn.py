"""Changes to the cluster all the time, made at the API server itself: nodes, pods, bindings, labels, budgets."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import httpx

from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object, node, pod

NODES = 30
PODS = 400
BUDGETS = 10
# Of each of two threads; with the answers' times that makes about 40 changes a second.
_PAUSE_SECONDS = 0.03
_WRITERS = 2


def node_name(number: int) -> str:
    return f"node-{number:02}"


class Churn:
    """Two threads that change the cluster at random, as a context manager."""

    def __init__(self, api: API, seed: int) -> None:
        self._api = api
        self._is_over = threading.Event()
        self._writers = [_Writer(api, random.Random(f"{seed}/{number}")) for number in range(_WRITERS)]
        self._threads = [threading.Thread(target=self._run, args=(writer,)) for writer in self._writers]

    def __enter__(self) -> Self:
        self._api.create(*(node(node_name(number)) for number in range(NODES)))
        self._api.create(*(_pod(number, random.Random(number)) for number in range(PODS)))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing changes while the context lasts."""
        for writer in self._writers:
            writer.turn.acquire()
        try:
            yield
        finally:
            for writer in self._writers:
                writer.turn.release()

    def hurry(self, changes: int) -> None:
        """Make so many changes now, and return when they are made."""
        with self.paused():
            writer = self._writers[0]
            for _ in range(changes):
                writer.change_something()

    def _run(self, writer: "_Writer") -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            with writer.turn:
                writer.change_something()


class _Writer:
    """Makes one change at a time; what is refused, as by an API server that is down, is left."""

    def __init__(self, api: API, chance: random.Random) -> None:
        self.turn = threading.Lock()
        self._api = api
        self._random = chance

    def change_something(self) -> None:
        change = self._random.choices((self._change_node, self._change_pod, self._change_budget), weights=(2, 7, 1))[0]
        with suppress(APIError, httpx.TransportError):
            change()

    def _change_node(self) -> None:
        name = node_name(self._random.randrange(NODES))
        there = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        what = self._random.choice(("create", "delete", "label", "cordon", "grow"))
        if what == "create":
            self._api.create(node(name, labels={"zone": self._some("abc")}))
        elif what == "delete":
            self._api.delete(there)
        elif what == "label":
            self._api.patch(there, patch={"metadata": {"labels": {"zone": self._some("abc")}}})
        elif what == "cordon":
            self._api.patch(there, patch={"spec": {"unschedulable": self._random.random() < 0.5}})
        else:
            amounts = {"allocatable": {"cpu": self._some("468")}}
            self._api.patch(there, patch={"status": amounts}, subresource="status")

    def _change_pod(self) -> None:
        number = self._random.randrange(PODS)
        there = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "namespace": "default"}}
        what = self._random.choice(("create", "create", "create", "delete", "label", "bind", "bind", "end"))
        if what == "create":
            self._api.create(_pod(number, self._random))
        elif what == "delete":
            self._api.delete(there)
        elif what == "label":
            self._api.patch(there, patch={"metadata": {"labels": {"app": self._some("xyz")}}})
        elif what == "bind":
            self._bind(there)
        else:
            self._api.patch(there, patch={"status": {"phase": "Succeeded"}}, subresource="status")

    def _bind(self, there: Object) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name(self._random.randrange(NODES))}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": there["metadata"], "target": target}
        self._api.request("POST", f"{self._api.object_path(there)}/binding", binding)

    def _change_budget(self) -> None:
        name = f"budget-{self._random.randrange(BUDGETS)}"
        there = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        budget = {
            **there,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "minAvailable": self._random.randrange(9),
                "selector": {"matchLabels": {"app": self._some("xyz")}},
            },
        }
        if self._random.random() < 0.5:
            self._api.create(budget)
        else:
            self._api.delete(budget)

    def _some(self, letters: str) -> str:
        return self._random.choice(letters)


class Ticks:
    """A number that grows four times a second, as a label of a node and of a pod on it; a context manager.

    Who looks for nodes with at least some number, and for nodes with such a pod, shows how old the state is that it
    goes by.
    """

    NAME = "clock"
    LABEL = "tick"
    _SECONDS = 0.25

    def __init__(self, api: API, churn: Churn) -> None:
        self._api = api
        self._churn = churn
        self._told: list[tuple[float, int]] = []
        self._is_over = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run)
        self._objects = (node(self.NAME), pod(self.NAME, nodeName=self.NAME))

    def __enter__(self) -> Self:
        self._api.create(*self._objects)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The number does not change while the context lasts."""
        with self._turn:
            yield

    def forget(self) -> None:
        """Expect nothing of what has been written until now: it is to be undone."""
        self._told = []

    def written(self, seconds_ago: float) -> int | None:
        """The last number that the API server has acknowledged so long ago; None if there is none."""
        until = time.monotonic() - seconds_ago
        return next((tick for at, tick in reversed(self._told) if at <= until), None)

    def _run(self) -> None:
        tick = 0
        while not self._is_over.wait(self._SECONDS):
            tick += 1
            with self._turn:
                told = self._told
                try:
                    self._api.patch(*self._objects, patch={"metadata": {"labels": {self.LABEL: str(tick)}}})
                except (APIError, httpx.TransportError):
                    continue
                told.append((time.monotonic(), tick))
                del told[:-400]


def _pod(number: int, chance: random.Random) -> Object:
    return pod(
        f"pod-{number}",
        labels={"app": chance.choice("xyz")},
        requests={"cpu": chance.choice(("50m", "100m")), "memory": "64Mi"},
    )

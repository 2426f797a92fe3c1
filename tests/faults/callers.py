"""Calls at the service all the time, which show how old the state is that it goes by."""

import random
import threading
import time
from typing import Self

import httpx

from tests.e2e.support.objects import Object, pod
from tests.e2e.support.programs.service import Service
from tests.faults.churn import NODES, Ticks, node_name

_PAUSE_SECONDS = 0.03
# How long after the limit a decision may still use a state of before: its call and the last events were on their way.
_TOLERANCE_SECONDS = 1.0
# More numbers than will have been written when an answer comes.
_AHEAD = 400


class Callers:
    """A thread that calls filter and prioritize, as a context manager; `complaints` tell what should not have been."""

    def __init__(self, service: Service, ticks: Ticks, stale_limit_seconds: float, seed: int) -> None:
        self.complaints: list[str] = []
        self.answers = 0
        self.refusals = 0
        self.oldest_seconds = 0.0
        self._service = service
        self._ticks = ticks
        self._limit = stale_limit_seconds + _TOLERANCE_SECONDS
        self._random = random.Random(f"{seed}/calls")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            try:
                self._filter()
                self._prioritize()
            except httpx.HTTPStatusError as error:
                self._take_error(error.response.text)
            except (httpx.TransportError, LookupError, TypeError, ValueError) as error:
                self.complaints.append(f"a call ended with {error!r}")

    def _filter(self) -> None:
        # Now the state must be so new; now we would like to know whether it is.
        seconds_ago = self._random.choice((self._limit, self._random.uniform(0, self._limit)))
        tick = self._ticks.written(seconds_ago)
        if tick is None:
            return
        asked_at = time.monotonic()
        answer = self._service.call("filter", {"Pod": _wants(tick), "NodeNames": [Ticks.NAME, *self._some_nodes()]})
        if answer["Error"]:
            self._take_error(answer["Error"])
            return
        self.answers += 1
        if Ticks.NAME not in (answer["NodeNames"] or ()) and self._ticks.written(0) is not None:
            age = seconds_ago + time.monotonic() - asked_at
            self.oldest_seconds = max(self.oldest_seconds, seconds_ago)
            if seconds_ago >= self._limit:
                why = (answer["FailedNodes"] or {}) | (answer["FailedAndUnresolvableNodes"] or {})
                self.complaints.append(f"a decision used a state more than {age:.1f} s old: {why.get(Ticks.NAME)}")

    def _prioritize(self) -> None:
        names = self._some_nodes()
        scores = self._service.call("prioritize", {"Pod": pod("wanted"), "NodeNames": names})
        if [score["Host"] for score in scores] != names:
            self.complaints.append(f"prioritize answered {scores} for {names}")

    def _take_error(self, text: str) -> None:
        if "does not know the cluster well enough" in text:
            self.refusals += 1
        else:
            self.complaints.append(f"a call was answered {text}")

    def _some_nodes(self) -> list[str]:
        return [node_name(number) for number in self._random.sample(range(NODES), 5)]


def _wants(tick: int) -> Object:
    """A pod that fits the clock node if the service has seen this tick, of the node and of the pod on it."""
    newer = {"key": Ticks.LABEL, "operator": "Gt", "values": [str(tick - 1)]}
    any_newer = {"key": Ticks.LABEL, "operator": "In", "values": [str(tick + more) for more in range(_AHEAD)]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [newer]}]}
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchExpressions": [any_newer]}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    }
    return pod("wanted", affinity=affinity)

"""CostAware: prefers nodes that cost little, in money, in carbon or in any other unit.

A label of the node has its cost, or a URL answers with the costs by zone: {"zone-a": 0.12, "zone-b": 230.5}.
"""

import logging
import math
import threading
from collections.abc import Callable, Mapping
from typing import Annotated

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from extender_service.plugin_api import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    Handle,
    Model,
    NodeView,
    Pod,
    PreScore,
    Score,
    Status,
)

log = logging.getLogger(__name__)

FETCH_TIMEOUT_SECONDS = 10.0
_UNKNOWN = math.nan


class CostAwareArgs(Model):
    """Where costs come from. The label `costLabel` of a node comes first, then the cost of its zone (`zoneLabel`).

    Without `url`, only `costLabel` counts. Costs older than `maxAgeSeconds` do not count.
    """

    cost_label: str = "example.com/cost"
    zone_label: str = "topology.kubernetes.io/zone"
    url: Annotated[str, Field(pattern="^(https?://.*)?$")] = ""
    refresh_seconds: Annotated[float, Field(gt=0)] = 60.0
    max_age_seconds: Annotated[float, Field(gt=0)] = 900.0


class CostFeed:
    """Costs by zone. A thread fetches them, so that a decision reads the last answer and never waits.

    One assignment replaces the whole answer, so no lock is needed.
    """

    def __init__(self, args: CostAwareArgs, clock: Callable[[], float]) -> None:
        self._args = args
        self._clock = clock
        self._latest: tuple[float, Mapping[str, float]] = (-math.inf, {})
        self._stopped = threading.Event()

    def start(self) -> None:
        """Fetch now and every `refreshSeconds`, until `stop` or the end of the process."""
        threading.Thread(target=self._run, name="cost-feed", daemon=True).start()

    def stop(self) -> None:
        """Fetch no more."""
        self._stopped.set()

    def costs(self) -> Mapping[str, float]:
        """Return the last costs by zone; empty if they are stale."""
        fetched, costs = self._latest
        return costs if self._clock() - fetched <= self._args.max_age_seconds else {}

    def fetch_for_good(self) -> None:
        """Fetch once, for costs that are never stale."""
        self.refresh()
        self._latest = (math.inf, self._latest[1])

    def refresh(self) -> None:
        """Fetch once. Log a failure, and keep the last answer until it is stale."""
        try:
            answer = httpx.get(self._args.url, timeout=FETCH_TIMEOUT_SECONDS).raise_for_status()
            costs = msgspec.json.decode(answer.content, type=dict[str, float])
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError) as error:
            log.warning("cannot fetch costs: %s: %s", type(error).__name__, error)
        else:
            self._latest = (self._clock(), costs)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.refresh()
            self._stopped.wait(self._args.refresh_seconds)


class CostAware(PreScore, Score):
    """Gives the cheapest node the most points and the most expensive none. A node of unknown cost gets half.

    Skips if the cost of no node is known, as after a start or when the costs are stale. A simulation has the costs of
    its start.
    """

    name = "CostAware"
    args_type = CostAwareArgs
    args: CostAwareArgs

    def __init__(self, args: CostAwareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.feed = CostFeed(args, handle.clock)
        if args.url and handle.simulated:
            self.feed.fetch_for_good()  # by no thread, which would go on when the simulation has ended
        elif args.url:
            self.feed.start()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Look up what each node costs."""
        by_zone = self.feed.costs()
        own = nodes.kept_by_facts(_own_costs, self.args.cost_label)
        zonal = _look_up(nodes, self.args.zone_label, lambda zone: by_zone.get(zone, _UNKNOWN))
        costs = np.where(np.isnan(own), zonal, own)
        if np.isnan(costs).all():
            return SKIP
        state[self] = costs
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score the nodes that passed the filters, from the cheapest to the most expensive."""
        costs: NDArray[np.float64] = state[self]
        lowest, highest = np.nanmin(costs), np.nanmax(costs)
        dearness = (costs - lowest) / max(highest - lowest, np.finfo(np.float64).tiny)
        known = np.rint(MAX_NODE_SCORE * (1 - dearness))
        scores: NDArray[np.int64] = np.where(np.isnan(costs), MAX_NODE_SCORE // 2, known).astype(np.int64)
        return scores


def _own_costs(nodes: NodeView, label: str) -> NDArray[np.float64]:
    """Return the cost that each node's own label says; the nodes keep it until they change."""
    return _look_up(nodes, label, _number)


def _look_up(nodes: NodeView, label: str, cost_of: Callable[[str], float]) -> NDArray[np.float64]:
    """Return a cost for each node by the value of a label, computed once per distinct value."""
    numbers, column = nodes.label(label)
    by_value = [_UNKNOWN if value is None else cost_of(value) for value in column.values.values]
    # Nodes without the label have the number -1, which picks the last entry.
    costs: NDArray[np.float64] = np.array([*by_value, _UNKNOWN])[numbers]
    return costs


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return _UNKNOWN
    return number if math.isfinite(number) else _UNKNOWN

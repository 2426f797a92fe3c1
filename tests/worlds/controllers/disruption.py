"""The disruption controller of kube-controller-manager: keeps the status of PodDisruptionBudgets."""

from collections.abc import Callable
from math import ceil
from typing import Any

from tests.worlds.api_server import kinds
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.objects.timestamps import parse
from tests.worlds.api_server.registry import Registry, key_of
from tests.worlds.api_server.selectors import matches_selector

Object = dict[str, Any]

# A pod that was evicted and is not gone counts as healthy again after so long.
_DISRUPTED_SECONDS = 120.0
_SCALED = {kind.name: kind for kind in (kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.REPLICATION_CONTROLLERS)}


class DisruptionController:
    """Computes the status of each budget in `step`. `clock` returns seconds since 1970."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock

    def step(self) -> None:
        """Bring the status of each budget up to date."""
        budgets = tuple(self._registry.etcd.all(kinds.BUDGETS))
        if not budgets:
            return
        pods: dict[str, list[Object]] = {}
        for item in self._registry.etcd.all(kinds.PODS):
            pods.setdefault(item.value["metadata"]["namespace"], []).append(item.value)
        for budget in budgets:
            selector = budget.value["spec"].get("selector")
            selected = [
                pod
                for pod in pods.get(budget.value["metadata"]["namespace"], ())
                if matches_selector(selector, pod["metadata"].get("labels", {}))
                and pod["status"].get("phase") not in ("Succeeded", "Failed")
            ]
            self._update(budget, selected)

    def _update(self, budget: Item, pods: list[Object]) -> None:
        disrupted = self._disrupted(budget.value, pods)
        expected, desired = self._expected(budget.value, pods)
        healthy = sum(
            _is_ready(pod) and "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        now = self._registry.now()

        def set_status(value: Object) -> None:
            status = value["status"]
            status.update(
                observedGeneration=value["metadata"]["generation"],
                currentHealthy=healthy,
                desiredHealthy=desired,
                expectedPods=expected,
                disruptionsAllowed=allowed,
            )
            status.pop("disruptedPods", None)
            if disrupted:
                status["disruptedPods"] = disrupted
            _set_condition(status, is_allowed=allowed > 0, now=now)

        self._registry.change(kinds.BUDGETS, budget, set_status)

    def _disrupted(self, budget: Object, pods: list[Object]) -> dict[str, str]:
        """The pods whose eviction was allowed lately, and that are still there."""
        names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        evicted = budget["status"].get("disruptedPods") or {}
        now = self._clock()
        return {name: at for name, at in evicted.items() if name in names and parse(at) + _DISRUPTED_SECONDS > now}

    def _expected(self, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them healthy."""
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(0, expected - _amount(spec["maxUnavailable"], expected))
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods)
        return expected, _amount(least, expected)

    def _scale(self, pods: list[Object]) -> int:
        """Return the sum of the replicas that the controllers of pods have."""
        replicas: dict[str, int] = {}
        for pod in pods:
            owners = pod["metadata"].get("ownerReferences") or ()
            owner = next((entry for entry in owners if entry.get("controller")), None)
            kind = _SCALED.get(owner["kind"]) if owner else None
            if owner is None or kind is None:
                continue
            found = self._registry.etcd.get(kind, key_of(pod["metadata"]["namespace"], owner["name"]))
            if found is not None and found.value["metadata"]["uid"] == owner["uid"]:
                replicas[owner["uid"]] = found.value["spec"].get("replicas", 1)
        return sum(replicas.values())


def _amount(value: int | str, total: int) -> int:
    """Return a number, or a percentage of the total, rounded up."""
    return value if isinstance(value, int) else ceil(int(value.rstrip("%")) * total / 100)


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _set_condition(status: Object, *, is_allowed: bool, now: str) -> None:
    wanted = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": now,
        "reason": "SufficientPods" if is_allowed else "InsufficientPods",
        "message": "",
    }
    conditions = status.setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present["type"] == "DisruptionAllowed":
            if present["status"] == wanted["status"]:
                wanted["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[index] = wanted
            return
    conditions.append(wanted)

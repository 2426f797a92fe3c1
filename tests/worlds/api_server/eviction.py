"""POST pods/NAME/eviction (kubernetes/pkg/registry/core/pod/storage, EvictionREST)."""

from typing import Any

from tests.worlds.api_server import deletion, errors, kinds
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.objects.conditions import set_condition
from tests.worlds.api_server.registry import Registry
from tests.worlds.api_server.selectors import matches_selector

Object = dict[str, Any]

# The first minor releases whose texts say more about a budget.
EXPLAINS_SINCE = 35
NAMES_NEGATIVE_SINCE = 37

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_MOST_DISRUPTED = 2000
_TOO_MANY = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(registry: Registry, namespace: str, name: str, eviction: Object, minor: int, *, dry_run: bool) -> Object:
    """Delete a pod if its budget allows it, and return the answer's object. Raises RefusedError."""
    if (eviction.get("metadata") or {}).get("name", "") != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions") or {})
    if dry_run:
        options["dryRun"] = ["All"]
    pod = registry.get(kinds.PODS, namespace, name)
    if _needs_no_budget(pod.value):
        return _delete(registry, pod, options)
    budgets = [
        item
        for item in registry.etcd.all(kinds.BUDGETS)
        if item.value["metadata"]["namespace"] == namespace
        and matches_selector(item.value["spec"].get("selector"), pod.value["metadata"].get("labels", {}))
    ]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise errors.RefusedError(500, "", text)
    if budgets and not _is_unprotected(pod.value, budgets[0].value):
        _decrement(registry, budgets[0], name, minor, dry_run=bool(options.get("dryRun")))
    return _delete(registry, pod, options)


def _needs_no_budget(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_unprotected(pod: Object, budget: Object) -> bool:
    """Whether the pod is not ready, and its budget lets such a pod go."""
    conditions = pod["status"].get("conditions", ())
    if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
        return False
    status = budget["status"]
    return bool(
        budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        or status["currentHealthy"] >= status["desiredHealthy"] > 0
    )


def _decrement(registry: Registry, budget: Item, pod_name: str, minor: int, *, dry_run: bool) -> None:
    value = budget.value
    name, status = value["metadata"]["name"], value["status"]
    if status.get("observedGeneration", 0) < value["metadata"]["generation"]:
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(text, seconds=10)
    if status["disruptionsAllowed"] < 0:
        why = "pdb disruptions allowed is negative"
        raise _forbidden(name, why, why, minor)
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(name, why, "too many pending evictions not confirmed by PDB controller", minor)
    if status["disruptionsAllowed"] == 0:
        raise _too_many(_why_none(name, status, minor))

    def decrement(new: Object) -> None:
        new["status"]["disruptionsAllowed"] -= 1
        new["status"].setdefault("disruptedPods", {})[pod_name] = registry.now()
        if new["status"]["disruptionsAllowed"] == 0:
            _set_insufficient(new, registry.now())

    registry.change(kinds.BUDGETS, budget, decrement, dry_run=dry_run)


def _why_none(name: str, status: Object, minor: int) -> str:
    """Say why a budget allows no disruption."""
    needed, healthy = status["desiredHealthy"], status["currentHealthy"]
    too_few = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    if minor < EXPLAINS_SINCE:
        return too_few
    refused = f"The disruption budget {name} does not allow evicting pods currently"
    conditions = (entry for entry in status.get("conditions", ()) if entry["type"] == "DisruptionAllowed")
    condition = next(conditions, {"status": ""})
    message = condition.get("message") if condition["status"] == "False" else ""
    if message and condition["reason"] == "SyncFailed":
        return f"{refused} because it failed sync: {message}"
    if healthy <= needed:
        return too_few
    return f"{refused} ({condition['reason']}): {message}" if message else refused


def _set_insufficient(budget: Object, now: str) -> None:
    """UpdateDisruptionAllowedCondition of component-helpers, for a budget that allows no more."""
    conditions = budget["status"].setdefault("conditions", [])
    wanted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["status"].get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    for index, present in enumerate(conditions):
        if present["type"] == "DisruptionAllowed":
            if present["status"] == "False":
                wanted["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[index] = wanted
            return
    conditions.append(wanted)


def _delete(registry: Registry, pod: Item, options: Object) -> Object:
    metadata = pod.value["metadata"]
    if not options.get("dryRun"):
        wanted = options.get("preconditions") or {}
        _check(wanted, pod)

        def add_condition(value: Object) -> None:
            set_condition(
                value["status"],
                registry.now(),
                type="DisruptionTarget",
                status="True",
                reason="EvictionByEvictionAPI",
                message="Eviction API: evicting",
            )

        changed = registry.change(kinds.PODS, pod, add_condition)
        if "resourceVersion" in wanted:
            options = {**options, "preconditions": {**wanted, "resourceVersion": str(changed.revision)}}
    deletion.delete(registry, kinds.PODS, metadata["namespace"], metadata["name"], options)
    return _SUCCESS


def _check(wanted: Object, pod: Item) -> None:
    for field, word, after in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        found = pod.value["metadata"][field]
        if wanted.get(field) and wanted[field] != found:
            text = f"the {word} in the precondition ({wanted[field]}) does not match the {word} in record ({found})"
            raise deletion.conflict_of_kind(kinds.PODS, pod.value["metadata"]["name"], f"{text}. {after}")


def _too_many(cause: str, *, seconds: int = 0) -> errors.RefusedError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return errors.RefusedError(429, "TooManyRequests", _TOO_MANY, details)


def _forbidden(name: str, why: str, cause: str, minor: int) -> errors.RefusedError:
    text = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
    details: Object = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    if minor >= NAMES_NEGATIVE_SINCE:
        message = f"The disruption budget {name} does not allow evicting pods currently: {cause}"
        details["causes"] = [{"reason": "DisruptionBudget", "message": message}]
    return errors.RefusedError(403, "Forbidden", text, details)

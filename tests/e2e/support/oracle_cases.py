"""Cases for the oracle, which runs kube-scheduler's own plugins, from what the API server holds."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tests.conformance.cases import Verdict
from tests.e2e.support.api import API
from tests.e2e.support.objects import Object

# What of the cluster the plugins read, besides pods, by API version.
KINDS = {
    "v1": ("Node", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim"),
    "apps/v1": ("ReplicaSet",),
    "policy/v1": ("PodDisruptionBudget",),
    "storage.k8s.io/v1": ("CSINode",),
}


def surroundings(api: API, kinds: Mapping[str, Sequence[str]] = KINDS) -> list[msgspec.Raw]:
    """All objects of these kinds by API version, each encoded once for many cases."""
    return [
        msgspec.Raw(msgspec.json.encode(without_history(found)))
        for version, of_version in kinds.items()
        for kind in of_version
        for found in api.list_all(kind, api_version=version)
    ]


def case(name: str, pod: Object, others: Sequence[Object], around: Sequence[msgspec.Raw]) -> bytes:
    """A pod to schedule, with the default configuration, where these other pods and objects are."""
    return msgspec.json.encode({"name": name, "pod": pod, "objects": [*around, *others]})


def without_history(found: Object) -> Object:
    """An object without managedFields, which are the larger part of it."""
    metadata = {field: value for field, value in found["metadata"].items() if field != "managedFields"}
    return {**found, "metadata": metadata}


def why_not(pod: str, node: str, verdict: Verdict) -> Iterator[str]:
    """Yield why kube-scheduler would not have chosen this node; nothing if it might have."""
    error = verdict.get("error") or verdict.get("cycleError")
    totals: dict[str, int] = verdict.get("total") or {}
    if error:
        yield f"{pod}: {error}"
    elif node not in totals:
        reason = (verdict["filter"] or {}).get(node, verdict["preFilter"])
        yield f"{pod} was put on {node}, which fails: {reason}"
    elif totals[node] < max(totals.values()):
        scores = {plugin: by_node[node] for plugin, by_node in verdict["score"].items()}
        best = max(totals, key=totals.__getitem__)
        best_scores = {plugin: by_node[best] for plugin, by_node in verdict["score"].items()}
        yield f"{pod} was put on {node}: {scores}; better is {best}: {best_scores}"

"""What must hold for pods that are bound, told from the API server's objects alone.

The rules are those of the pods that these tests make, written down once more in plain Python: nothing here is shared
with the service, so that both can only be wrong in the same way by chance.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from tests.e2e.support.objects import Object

_SUFFIXES = {"m": Fraction(1, 1000), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30)}


def violations(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Everything that is wrong: a pod without a node or on one that it may not be on, a node with too much on it."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    on_node: dict[str, list[Object]] = {name: [] for name in by_name}
    found = []
    for pod in pods:
        name = pod["spec"].get("nodeName", "")
        if name not in by_name:
            found.append(f"{pod['metadata']['name']} is on no node: {name!r}")
            continue
        on_node[name].append(pod)
        found += [f"{pod['metadata']['name']} is on {name}: {rule}" for rule in _misplaced(pod, by_name[name])]
    for name, there in on_node.items():
        found += [f"{name} has too much on it: {rule}" for rule in _overfull(by_name[name], there)]
    return found


def _misplaced(pod: Object, node: Object) -> Iterator[str]:
    labels: Mapping[str, str] = node["metadata"]["labels"]
    for key, value in pod["spec"].get("nodeSelector", {}).items():
        if labels.get(key) != value:
            yield f"its selector wants {key}={value}"
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and not any(_matches(term, labels) for term in required["nodeSelectorTerms"]):
        yield "its affinity wants another"
    for taint in node["spec"].get("taints", []):
        tolerated = any(_tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations", []))
        if taint["effect"] != "PreferNoSchedule" and not tolerated:
            yield f"it does not tolerate {taint['key']}"


def _matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(_holds(expression, labels) for expression in term["matchExpressions"])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    is_in = labels.get(expression["key"]) in expression["values"]
    return {"In": is_in, "NotIn": not is_in}[expression["operator"]]


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """The tests' own tolerations name all of a taint; those that the API server adds to every pod, no value."""
    if toleration["operator"] == "Exists":
        return (toleration["key"], toleration["effect"]) == (taint["key"], taint["effect"])
    return all(toleration[field] == taint.get(field, "") for field in ("key", "value", "effect"))


def _overfull(node: Object, pods: list[Object]) -> Iterator[str]:
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    allocatable = node["status"]["allocatable"]
    for resource in ("cpu", "memory"):
        requested = sum(
            (_amount(container["resources"].get("requests", {}).get(resource, "0")) for container in containers),
            start=Fraction(0),
        )
        if requested > _amount(allocatable[resource]):
            yield f"{requested} {resource} of {allocatable[resource]}"
    if len(pods) > int(allocatable["pods"]):
        yield f"{len(pods)} pods of {allocatable['pods']}"
    ports = Counter(port["hostPort"] for container in containers for port in container.get("ports", []))
    yield from (f"port {port} {count} times" for port, count in ports.items() if count > 1)


def _amount(quantity: str) -> Fraction:
    for suffix, factor in _SUFFIXES.items():
        if quantity.endswith(suffix):
            return Fraction(quantity.removesuffix(suffix)) * factor
    return Fraction(quantity)

"""Whether a pod fits on a node, as those see it who are not the scheduler: the kubelet, simple schedulers, and the API
server where a pod is resized."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from extender_service.kube.parsing.quantities import milli_value, parse_quantity, whole_value

Object = dict[str, Any]
Amounts = dict[str, int]

_ANY_ADDRESS: Final = "0.0.0.0"


def amounts_of(quantities: Mapping[str, str]) -> Amounts:
    """Return quantities as numbers: cpu in thousandths, the rest in whole units."""
    return Amounts(_numbers(tuple(quantities.items())))


@lru_cache(4096)
def _numbers(quantities: tuple[tuple[str, str], ...]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, milli_value(parse_quantity(text)) if name == "cpu" else whole_value(parse_quantity(text)))
        for name, text in quantities
    )


def requests_of(pod: Object) -> Amounts:
    """Return what a pod asks for: the sum of its containers and sidecars, or an init container that asks for more, with
    the sidecars before it; and overhead."""
    spec, total, sidecars, most = pod["spec"], Amounts(), Amounts(), Amounts()
    for container in spec["containers"]:
        _add(total, _requests(container))
    for container in spec.get("initContainers", ()):
        at_once = Amounts(sidecars)
        _add(at_once, _requests(container))
        if container.get("restartPolicy") == "Always":
            sidecars = at_once
        for name, amount in at_once.items():
            most[name] = max(most.get(name, 0), amount)
    _add(total, sidecars)
    for name, amount in most.items():
        total[name] = max(total.get(name, 0), amount)
    _add(total, amounts_of(spec.get("overhead", {})))
    return total


def is_finished(pod: Object) -> bool:
    """Whether a pod runs no more."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


class Room:
    """What is left of a node beside the pods on it."""

    def __init__(self, allocatable: Amounts, pods: Iterable[Object]) -> None:
        self._left = Amounts(allocatable)
        for pod in pods:
            self.take(pod)

    def take(self, pod: Object) -> None:
        """Give a pod what it asks for."""
        for name, amount in {**requests_of(pod), "pods": 1}.items():
            if name in self._left:
                self._left[name] -= amount

    def shortage(self, pod: Object) -> str:
        """Return the first resource of which too little is left for a pod; empty if there is enough of all.

        A resource that the node does not have is not looked at, as the kubelet does not.
        """
        if self._left.get("pods", 0) < 1:
            return "pods"
        asked = requests_of(pod).items()
        return next((name for name, amount in asked if amount and amount > self._left.get(name, amount)), "")


def shortage(pod: Object, others: Iterable[Object], allocatable: Amounts) -> str:
    """Return the first resource of which too little is left beside the other pods, as `Room.shortage`."""
    return Room(allocatable, others).shortage(pod)


def selects(pod: Object, node: Object) -> bool:
    """Whether the pod's nodeSelector and required node affinity match the node."""
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_terms(required, node)


def matches_terms(selector: Object, node: Object) -> bool:
    """Whether a core/v1 NodeSelector matches a node."""
    labels, fields = node["metadata"].get("labels", {}), {"metadata.name": node["metadata"]["name"]}
    return any(
        all(_matches(entry, labels) for entry in term.get("matchExpressions", ()))
        and all(_matches(entry, fields) for entry in term.get("matchFields", ()))
        for term in selector["nodeSelectorTerms"]
        if term
    )


def tolerates(pod: Object, taints: Iterable[Object], effects: tuple[str, ...]) -> bool:
    """Whether a pod tolerates all taints of some effects."""
    return all(tolerations_of(pod, taint) for taint in taints if taint["effect"] in effects)


def tolerations_of(pod: Object, taint: Object) -> list[Object]:
    """Return a pod's tolerations of a taint."""
    return [
        entry
        for entry in pod["spec"].get("tolerations", ())
        if entry.get("effect", "") in ("", taint["effect"])
        and entry.get("key", "") in ("", taint["key"])
        and (entry.get("operator") == "Exists" or entry.get("value", "") == taint.get("value", ""))
    ]


def ports_collide(pod: Object, others: Iterable[Object]) -> bool:
    """Whether the pod wants a port of the host that another has."""
    wanted = host_ports(pod)
    taken = [port for other in others for port in host_ports(other)] if wanted else []
    return any(
        mine[:2] == theirs[:2] and (mine[2] == theirs[2] or _ANY_ADDRESS in (mine[2], theirs[2]))
        for mine in wanted
        for theirs in taken
    )


def host_ports(pod: Object) -> list[tuple[str, int, str]]:
    """Return protocol, number and address of each port of the host that a pod wants."""
    return [
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or _ANY_ADDRESS)
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("hostPort")
    ]


def _requests(container: Object) -> Amounts:
    return amounts_of(container.get("resources", {}).get("requests", {}))


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _matches(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", ())
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            raise AssertionError(f"no scenario draws {operator}")

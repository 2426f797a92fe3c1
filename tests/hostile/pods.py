"""Pods that ask for too much, by what they have too much of."""

from collections.abc import Callable
from typing import Any

Pod = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def pod(name: str = "hostile", /, **spec: Any) -> Pod:
    """A pod that requests a CPU, and what else is given."""
    plain = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "labels": {"app": "hostile"}}
    return {"metadata": metadata, "spec": {**plain, **spec}}


def labels(count: int) -> Pod:
    """Has so many labels."""
    asked = pod()
    asked["metadata"]["labels"] = {f"key-{number}": "value" for number in range(count)}
    return asked


def selector_values(count: int) -> Pod:
    """Asks for nodes with one of so many values."""
    expression = {"key": _HOST, "operator": "NotIn", "values": [f"n{number}" for number in range(count)]}
    return pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}})


def node_terms(count: int) -> Pod:
    """Asks for so many kinds of nodes, by labels that no node has."""
    terms = [{"matchExpressions": [{"key": f"key-{n}", "operator": "In", "values": ["v"]}]} for n in range(count)]
    return pod(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def affinity_terms(count: int, kind: str = "podAffinity") -> Pod:
    """Prefers to be near pods of so many kinds, all pods but one kind each."""
    terms = [{"weight": 1, "podAffinityTerm": _term("NotIn", number)} for number in range(count)]
    return pod(affinity={kind: {_PREFERRED: terms}})


def anti_affinity_terms(count: int) -> Pod:
    """Must not be near pods of so many kinds, in as many topologies."""
    terms = [{**_term("In", number), "topologyKey": f"key-{number}"} for number in range(count)]
    return pod(affinity={"podAntiAffinity": {_REQUIRED: terms}})


def spread_constraints(count: int) -> Pod:
    """Wants to be spread by so many rules."""
    return pod(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": _ZONE,
                "whenUnsatisfiable": "ScheduleAnyway" if number % 2 else "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"app-{number:03}"}},
            }
            for number in range(count)
        ]
    )


def spread_topologies(count: int) -> Pod:
    """Wants to be spread over so many kinds of topologies, which no node is in."""
    return pod(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": f"key-{number}",
                "whenUnsatisfiable": "ScheduleAnyway" if number % 2 else "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"app-{number:03}"}},
            }
            for number in range(count)
        ]
    )


def selector_keys(count: int) -> Pod:
    """Prefers to be near pods with so many labels, which no pod has."""
    term = {"labelSelector": {"matchLabels": {f"key-{number}": "v" for number in range(count)}}, "topologyKey": _HOST}
    return pod(affinity={"podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}})


def equal_anti_affinity_terms(count: int) -> Pod:
    """Must not be near any pod, and says so often."""
    return pod(affinity={"podAntiAffinity": {_REQUIRED: [{"labelSelector": {}, "topologyKey": _HOST}] * count}})


def affinity_topologies(count: int) -> Pod:
    """Must be near pods of so many kinds, in as many topologies."""
    terms = [{**_term("NotIn", number), "topologyKey": f"key-{number}"} for number in range(count)]
    return pod(affinity={"podAffinity": {_REQUIRED: terms}})


def resources(count: int) -> Pod:
    """Requests so many resources that no node has."""
    return pod(containers=[{"resources": {"requests": {f"example.com/r{number}": "1" for number in range(count)}}}])


def containers(count: int) -> Pod:
    """Has so many init containers that go on running, and an image each."""
    requests = {"cpu": "1m", "memory": "1Mi"}
    return pod(
        initContainers=[
            {"image": f"image-{number}", "restartPolicy": "Always", "resources": {"requests": requests}}
            for number in range(count)
        ]
    )


def ports(count: int) -> Pod:
    """Wants so many ports of its host."""
    return pod(containers=[{"ports": [{"hostPort": 1 + number} for number in range(count)]}])


def volumes(count: int) -> Pod:
    """Mounts so many disks."""
    disks = [{"name": f"v{number}", "gcePersistentDisk": {"pdName": f"disk-{number}"}} for number in range(count)]
    return pod(volumes=disks)


def tolerations(count: int) -> Pod:
    """Tolerates so many taints."""
    return pod(tolerations=[{"key": f"key-{number}", "operator": "Exists"} for number in range(count)])


# How many of them are just decided about, and how many more are refused.
BY_LIMIT: dict[str, tuple[Callable[[int], Pod], int, int]] = {
    "labels": (labels, 1_000, 1_000_000),
    "values of a selector": (selector_values, 10_000, 100_000),
    "node selector terms": (node_terms, 1_000, 20_000),
    "preferred affinity terms": (affinity_terms, 1_000, 5_000),
    "required anti-affinity terms": (anti_affinity_terms, 1_000, 5_000),
    "equal anti-affinity terms": (equal_anti_affinity_terms, 1_000, 5_000),
    "topologies of required affinity": (affinity_topologies, 1_000, 5_000),
    "labels of a selector": (selector_keys, 1_000, 20_000),
    "topology spread constraints": (spread_constraints, 1_000, 5_000),
    "topologies of spread constraints": (spread_topologies, 1_000, 5_000),
    "resources": (resources, 100, 20_000),
    "containers": (containers, 1_000, 20_000),
    "host ports": (ports, 1_000, 20_000),
    "volumes": (volumes, 1_000, 20_000),
    "tolerations": (tolerations, 1_000, 20_000),
}


def running_with_terms(number: int, node_name: str, terms: int) -> Pod:
    """A pod that runs, and minds so many kinds of others."""
    mine = [_term("In", (number + term) % 1_000) for term in range(terms)]
    running = pod(f"minds-{number}", affinity={"podAntiAffinity": {_REQUIRED: mine}}, nodeName=node_name)
    return {"apiVersion": "v1", "kind": "Pod", **running}


def _term(operator: str, number: int) -> dict[str, Any]:
    expression = {"key": "app", "operator": operator, "values": [f"app-{number:03}"]}
    return {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": _HOST}

"""A cluster of 100 unlike nodes and 500 pods of mixed kinds, or so many `times` as many.

All pods have room if none is put in a wrong place.

Two kinds fill their nodes to the last: a decision that forgets the one before it, which no watch shows yet, puts too
much on one node, and a later pod finds no place.
"""

from collections.abc import Iterator
from typing import Any

from tests.e2e.support.objects import Object, node, pod

_ZONES = ("a", "b", "c")


def mixed_nodes(times: int = 1) -> list[Object]:
    """60 plain nodes in three zones, 20 small ones, 10 that only some pods tolerate, and 10 better left alone."""
    return [
        *(
            node(
                f"plain-{number}",
                labels={"zone": _ZONES[number % 3], "disk": "ssd" if number % 2 else "hdd", "plain": ""},
            )
            for number in range(60 * times)
        ),
        *(
            node(f"small-{number}", cpu="2", memory="4Gi", pods="5", labels={"zone": "d"})
            for number in range(20 * times)
        ),
        *(node(f"large-{number}", cpu="8", labels={"pool": "large"}, taints=[_LARGE]) for number in range(10 * times)),
        *(node(f"spot-{number}", labels={"zone": "d"}, taints=[_SPOT]) for number in range(10 * times)),
    ]


def mixed_pods(times: int = 1) -> list[Object]:
    """500 pods, the kinds taking turns."""
    by_kind = (_batch, _web, _in_zone_b, _on_ssd, _preferring_ssd, _without_requests, _plain)
    kinds = [kind(times) for kind in by_kind]
    pods = []
    while kinds:
        for kind in list(kinds):
            wanted = next(kind, None)
            if wanted is None:
                kinds.remove(kind)
            else:
                pods.append(wanted)
    return pods


_LARGE = {"key": "pool", "value": "large", "effect": "NoSchedule"}
_SPOT = {"key": "spot", "value": "", "effect": "PreferNoSchedule"}


def _batch(times: int) -> Iterator[Object]:
    """Fill the tainted nodes: four on each of the ten."""
    toleration = {"key": "pool", "operator": "Equal", "value": "large", "effect": "NoSchedule"}
    for number in range(40 * times):
        yield pod(
            f"batch-{number}",
            requests={"cpu": "2", "memory": "1Gi"},
            nodeSelector={"pool": "large"},
            tolerations=[toleration],
        )


def _web(times: int) -> Iterator[Object]:
    """Take one port on each of the twenty plain nodes of zone c."""
    for number in range(20 * times):
        yield pod(f"web-{number}", requests={"cpu": "100m"}, host_ports=[8080], nodeSelector={"zone": "c", "plain": ""})


def _in_zone_b(times: int) -> Iterator[Object]:
    for number in range(80 * times):
        yield pod(f"zonal-{number}", requests={"cpu": "500m", "memory": "256Mi"}, nodeSelector={"zone": "b"})


def _on_ssd(times: int) -> Iterator[Object]:
    terms = [{"matchExpressions": [_expression("disk", "In", "ssd"), _expression("zone", "NotIn", "a")]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for number in range(60 * times):
        yield pod(f"store-{number}", requests={"cpu": "250m", "memory": "1Gi"}, affinity={"nodeAffinity": required})


def _preferring_ssd(times: int) -> Iterator[Object]:
    preference = {"weight": 10, "preference": {"matchExpressions": [_expression("disk", "In", "ssd")]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    for number in range(40 * times):
        yield pod(f"cache-{number}", requests={"cpu": "100m", "memory": "1Gi"}, affinity={"nodeAffinity": preferred})


def _without_requests(times: int) -> Iterator[Object]:
    for number in range(60 * times):
        yield pod(f"idle-{number}")


def _plain(times: int) -> Iterator[Object]:
    for number in range(200 * times):
        yield pod(f"plain-{number}", requests={"cpu": "250m", "memory": "512Mi"})


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}

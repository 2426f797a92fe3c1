"""Nodes and pods of which no two are alike: nothing that is remembered about one serves another.

They are random, but the same in each run.
"""

from random import Random
from typing import Any

from bench.workloads import HOSTNAME, NAMESPACE, REQUIRED, ZONE
from tests.e2e.support import objects
from tests.e2e.support.objects import Object

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_APPS, _IMAGES, _POOLS = 200, 300, 8
_DISKS = ("ssd", "hdd", "nvme")
_TAINT = {"key": "dedicated", "value": "batch", "effect": "PreferNoSchedule"}


def nodes(count: int) -> list[Object]:
    """Return nodes of 4 to 64 cores and 8 to 256 GiB, with images, labels, and some with a taint."""
    random = Random(1)
    return [_node(random, number) for number in range(count)]


def pods(name: str, count: int) -> list[Object]:
    """Return pods, each with requests and a label of its own; most have some selectors, terms or constraints."""
    random = Random(name)
    return [_pod(random, f"{name}-{number:05}") for number in range(count)]


def _node(random: Random, number: int) -> Object:
    node = objects.node(
        f"node-{number:05}",
        cpu=f"{random.randint(4_000, 64_000)}m",
        memory=f"{random.randint(8_000, 256_000)}Mi",
        labels={
            ZONE: f"zone{random.randint(1, 3)}",
            "disk": random.choice(_DISKS),
            "pool": f"pool-{random.randrange(_POOLS)}",
            "generation": str(random.randint(1, 20)),
        },
        taints=[_TAINT] if random.random() < 0.1 else [],
    )
    node["status"]["images"] = [
        {"names": [_image(image)], "sizeBytes": (50 + image) << 20} for image in random.sample(range(_IMAGES), 10)
    ]
    return node


def _pod(random: Random, name: str) -> Object:
    app = f"app-{random.randrange(_APPS):03}"
    pod = objects.pod(
        name,
        namespace=NAMESPACE,
        labels={"app": app, "tier": random.choice(("web", "back", "data")), "pod-name": name},
        requests={"cpu": f"{random.randint(50, 400)}m", "memory": f"{random.randint(64, 900)}Mi"},
    )
    spec = pod["spec"]
    spec["containers"][0]["image"] = _image(random.randrange(_IMAGES))
    affinity: dict[str, Any] = {}
    if random.random() < 0.3:
        affinity["nodeAffinity"] = _node_affinity(random)
    if random.random() < 0.15:
        affinity["podAffinity"] = {_PREFERRED: [_preferred_term(random, f"app-{random.randrange(_APPS):03}", ZONE)]}
    if random.random() < 0.15:
        affinity["podAntiAffinity"] = _anti_affinity(random, app)
    if affinity:
        spec["affinity"] = affinity
    if random.random() < 0.2:
        spec["topologySpreadConstraints"] = [_spread(random, app)]
    if random.random() < 0.2:
        spec["tolerations"] = [{**_TAINT, "operator": "Equal"}]
    return pod


def _node_affinity(random: Random) -> Object:
    generation = {"key": "generation", "operator": "Gt", "values": [str(random.randint(0, 10))]}
    disk = {"key": "disk", "operator": "In", "values": random.sample(_DISKS, 2)}
    pool = {"key": "pool", "operator": "NotIn", "values": [f"pool-{random.randrange(_POOLS)}"]}
    return {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [generation, disk]}]},
        _PREFERRED: [{"weight": random.randint(1, 100), "preference": {"matchExpressions": [pool]}}],
    }


def _anti_affinity(random: Random, app: str) -> Object:
    if random.random() < 0.3:
        return {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}]}
    return {_PREFERRED: [_preferred_term(random, app, HOSTNAME)]}


def _preferred_term(random: Random, app: str, topology_key: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}
    return {"weight": random.randint(1, 100), "podAffinityTerm": term}


def _spread(random: Random, app: str) -> Object:
    return {
        "maxSkew": random.randint(5, 9),
        "topologyKey": ZONE,
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _image(number: int) -> str:
    return f"registry.example/image-{number:03}:v1"

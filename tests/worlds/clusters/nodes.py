"""Nodes of a cluster, as kubelets register them."""

from random import Random
from typing import Any, Final

from tests.worlds.actors.kubelet import VOLUME_LIMIT
from tests.worlds.clusters.draft import Draft

Object = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "example.com/gpu"
DEDICATED: Final = {"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}
# More than kube-scheduler looks at in any case.
_POOL_NODES: Final = (97, 110)


def draw_node(name: str, draft: Draft, random: Random) -> Object:
    """Draw a node."""
    cpus = random.choice(draft.sizes)
    amounts = {"cpu": str(cpus), "memory": f"{2 * cpus}Gi", "pods": random.choice(("8", "30", "110"))}
    if random.random() < 0.3:
        amounts[GPU] = str(random.randint(1, 4))
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        ZONE: f"zone-{random.randrange(draft.zones)}",
        "disk": random.choice(("ssd", "hdd")),
    }
    taints = [DEDICATED] if "taints" in draft.features and random.random() < 0.25 else []
    image = {"names": [f"image-{random.randrange(3)}:1"], "sizeBytes": 500_000_000}
    node: Object = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": amounts, "allocatable": amounts, "images": [image]},
    }
    if "volume-limits" in draft.features:
        node["metadata"]["annotations"] = {VOLUME_LIMIT: str(random.randint(1, 4))}
    return node


def draw_pool(draft: Draft, random: Random) -> list[Object]:
    """Draw the nodes of a pool, which are alike, as those of a cloud are that one autoscaler adds."""
    drawn = draw_node("pool", draft, random)
    return [_in_pool(drawn, f"pool-{number}") for number in range(random.randint(*_POOL_NODES))]


def _in_pool(drawn: Object, name: str) -> Object:
    metadata = drawn["metadata"]
    labels = {**metadata["labels"], "kubernetes.io/hostname": name}
    return {**drawn, "metadata": {**metadata, "name": name, "labels": labels}, "spec": {}}

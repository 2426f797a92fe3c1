"""Attempts of `schedule` without a feasible node, with all that is written then, and with the deletion of victims.

No two nodes and no two pods are alike.
"""

import itertools
from random import Random
from typing import Any, Literal

from bench import unlike
from extender_service.cluster.state.cluster import Cluster
from tests.counted.bytecodes import typical
from tests.counted.loop import Program
from tests.counted.pods import PODS_PER_NODE
from tests.support.clusters.scheduler_world import NAME

Waiting = Literal["that fits nowhere", "that preempts"]


def attempt(which: Waiting, nodes: int) -> int:
    """Count an attempt of a pod on full nodes, all of which have pods of lower priority."""
    random = Random(which)
    with Program(_full_cluster(nodes)) as program:
        return typical(program.fail(_manifest(random, which, number)) for number in itertools.count())


def _full_cluster(nodes: int) -> Cluster:
    random = Random(nodes)
    manifests = unlike.manifests(nodes, PODS_PER_NODE)
    taken: dict[str, int] = {}
    for pod in manifests["pods"]:
        spec = pod["spec"]
        spec.pop("affinity", None)
        spec["priority"] = random.randrange(100)
        millis = int(spec["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))
        taken[spec["nodeName"]] = taken.get(spec["nodeName"], 0) + millis
    for node in manifests["nodes"]:
        node["spec"]["taints"] = []
        node["status"]["allocatable"]["cpu"] = f"{taken[node['metadata']['name']] + random.randrange(200)}m"
    return unlike.cluster(manifests)


def _manifest(random: Random, which: Waiting, number: int) -> dict[str, Any]:
    pod = unlike.pending(random, "plain", number)
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    requests["cpu"] = f"{random.randint(200, 1000) + (100_000 if which == 'that fits nowhere' else 0)}m"
    spec = {**pod["spec"], "schedulerName": NAME, "priority": 1000 + random.randrange(100)}
    metadata = {**pod["metadata"], "resourceVersion": "10000"}
    return {**pod, "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

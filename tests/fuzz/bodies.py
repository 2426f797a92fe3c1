"""Bodies of calls about a cluster, from which others are made: our own, and what kube-scheduler once sent."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.cluster import FuzzedCluster, Object
from tests.fuzz.requests import Verb

RECORDED = Path(__file__).with_name("corpus") / "kube-scheduler.jsonl.gz"


@dataclass(frozen=True)
class Call:
    """A verb, and the arguments that it takes."""

    verb: Verb
    args: Any

    @property
    def body(self) -> bytes:
        """As bytes, without blanks, as Go writes them."""
        return json.dumps(self.args, separators=(",", ":"), ensure_ascii=False).encode()


def all_calls(cluster: FuzzedCluster) -> list[Call]:
    """Every verb with every pending pod, and what was recorded of kube-scheduler."""
    return [*_calls(cluster), *recorded_calls()]


def recorded_calls() -> Iterator[Call]:
    """What kube-scheduler sent when tests.fuzz.record listened."""
    with gzip.open(RECORDED) as lines:
        for line in lines:
            call = json.loads(line)
            yield Call(call["verb"], call["args"])


def _calls(cluster: FuzzedCluster) -> Iterator[Call]:
    names = cluster.node_names
    for number, pod in enumerate(cluster.pending):
        asked = names[number :: 1 + number % 7]
        by_name = {"Pod": pod, "Nodes": None, "NodeNames": asked}
        whole = [node for node in cluster.nodes if node["metadata"]["name"] in asked[:10]]
        by_node = {"Pod": pod, "Nodes": {"metadata": {}, "items": whole}, "NodeNames": None}
        yield Call("filter", by_name)
        yield Call("filter", by_node)
        yield Call("prioritize", by_name)
        yield Call("prioritize", by_node)
        victims = _victims(cluster, asked[:20])
        meta = {
            node: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in pods], "NumPDBViolations": number % 2}
            for node, pods in victims.items()
        }
        in_full = {node: {"Pods": pods, "NumPDBViolations": 0} for node, pods in victims.items()}
        yield Call("preempt", {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta})
        yield Call("preempt", {"Pod": pod, "NodeNameToVictims": in_full, "NodeNameToMetaVictims": None})
        yield Call("bind", binding(pod, asked[0]))


def binding(pod: Object, node: str) -> Object:
    """ExtenderBindingArgs."""
    metadata = pod["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }


def _victims(cluster: FuzzedCluster, nodes: list[str]) -> dict[str, list[Object]]:
    victims: dict[str, list[Object]] = {}
    for pod in cluster.running:
        if pod["spec"].get("nodeName") in nodes:
            victims.setdefault(pod["spec"]["nodeName"], []).append(pod)
    return {node: pods[: 1 + len(node) % 3] for node, pods in victims.items()}

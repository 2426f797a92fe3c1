"""Faults of the cluster itself, as the API server shows it."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from tests.worlds.api_server.kinds import NODES
from tests.worlds.api_server.messages import Request
from tests.worlds.faults.durations import some_seconds
from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings

_BURST_SECONDS: Final = 0.5
_ZONES: Final = ("zone-a", "zone-b", "zone-c")
_ZONE: Final = "topology.kubernetes.io/zone"


def _ask(surroundings: Surroundings, method: str, path: str, body: Any = None) -> None:
    """Ask for something that may fail, since others change the cluster, too."""
    patch = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    content = b"" if body is None else msgspec.json.encode(body)
    surroundings.api_servers.ask(Request(method, path, {}, {"content-type": "application/json"} | patch, content))


def _no_nodes(surroundings: Surroundings, _: Fault) -> End:
    """Delete all nodes. In the end they come again, under their names, with other UIDs."""
    etcd = surroundings.api_servers.model.etcd
    gone = [item.copy() for item in etcd.all(NODES)]
    for node in gone:
        _ask(surroundings, "DELETE", f"/api/v1/nodes/{node['metadata']['name']}")

    def come_again() -> None:
        machines = [node for node in gone if surroundings.has_machine(node["metadata"]["name"])]
        for node in machines:
            name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
            spec = {key: value for key, value in node["spec"].items() if key != "taints"}
            _ask(surroundings, "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "spec": spec})
            _ask(surroundings, "PATCH", f"/api/v1/nodes/{name}/status", {"status": node.get("status", {})})

    return come_again


def _label_burst(surroundings: Surroundings, fault: Fault) -> End:
    """Move nodes to other zones, `amount` times within half a second. In the end they are back."""
    random = surroundings.world.random(f"labels from {fault.at} on")
    before: dict[str, str | None] = {}
    is_over: list[bool] = []

    def move() -> None:
        names = [item.value["metadata"] for item in surroundings.api_servers.model.etcd.all(NODES)]
        if names and not is_over:
            metadata = random.choice(names)
            before.setdefault(metadata["name"], metadata.get("labels", {}).get(_ZONE))
            _label(surroundings, metadata["name"], random.choice(_ZONES))

    for _ in range(int(fault.amount)):
        surroundings.world.timeline.call_later(random.uniform(0.0, _BURST_SECONDS), move)

    def move_back() -> None:
        is_over.append(True)
        for name, zone in before.items():
            _label(surroundings, name, zone)

    return move_back


def _label(surroundings: Surroundings, node: str, zone: str | None) -> None:
    _ask(surroundings, "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {_ZONE: zone}}})


def _cluster(_: Surroundings) -> Sequence[str]:
    return ["cluster"]


def _some_changes(random: Random) -> float:
    return float(random.randint(10, 300))


CLUSTER_FAULTS: Final = (
    FaultKind("no-nodes", _cluster, _no_nodes, some_seconds),
    FaultKind("label-burst", _cluster, _label_burst, lambda _: 2.0, _some_changes),
)

"""Asks the oracle, which runs kube-scheduler's own plugins, about the placements that `schedule` has sampled."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from bench.scheduler.api_servers import ApiServer
from bench.scheduler.placement_sampler import Placement, read_placements
from bench.scheduler.scenes import Scene
from tests.conformance import oracle
from tests.conformance.cases import read_verdicts
from tests.e2e.support.objects import Object
from tests.e2e.support.oracle_cases import KINDS, why_not, without_history

_KINDS = {**KINDS, "storage.k8s.io/v1": ("CSINode", "StorageClass")}


class Judge:
    """Knows the objects of a cluster as the API server has completed them. Make it before a scheduler starts.

    Pods come and go meanwhile: `judge` reads once more what is there in the end.
    """

    def __init__(self, server: ApiServer, scene: Scene, minor: int) -> None:
        self._server = server
        self._minor = minor
        self._nodes = {node["metadata"]["name"]: node for node in scene.passing if node["kind"] == "Node"}
        self._pods: dict[str, Object] = {}
        self._read_pods()

    def judge(self, file: Path) -> tuple[int, list[str]]:
        """Return how many placements a file has, and which of them kube-scheduler would not have made, and why."""
        self._read_pods()
        placements = [*read_placements(file)]
        answer = oracle.ask(b"\n".join(self._lines(placements)), oracle.Reference(self._minor))
        verdicts = read_verdicts(iter(answer.splitlines()))
        judged = zip(placements, verdicts, strict=True)
        return len(placements), [why for each, verdict in judged for why in why_not(each.pod, each.node, verdict)]

    def _read_pods(self) -> None:
        for pod in self._server.api.list_all("Pod"):
            self._pods[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = pod

    def _lines(self, placements: Iterable[Placement]) -> Iterator[bytes]:
        """Yield a case for each placement, after definitions of the objects in it that no case before had."""
        around: dict[str, Object] = {}
        for version, kinds in _KINDS.items():
            for kind in kinds:
                for found in self._server.api.list_all(kind, api_version=version):
                    around[f"{kind} {found['metadata'].get('namespace')}/{found['metadata']['name']}"] = found
        nodes = self._nodes | {found["metadata"]["name"]: found for found in around.values() if found["kind"] == "Node"}
        others = {key: found for key, found in around.items() if found["kind"] != "Node"}
        defined: set[str] = set()
        for placement in placements:
            objects = {
                **others,
                **{f"Node {name}": nodes[name] for name in placement.nodes},
                **{f"{name} on {node}": _bound(self._pods[name], node) for name, node in placement.counted.items()},
            }
            yield from _definitions(objects, defined)
            pod = _pending(self._pods[placement.pod], placement.nominated)
            yield msgspec.json.encode({"name": placement.pod, "pod": pod, "objects": [*objects]})


def _definitions(objects: Mapping[str, Object], defined: set[str]) -> Iterator[bytes]:
    new = {key: without_history(found) for key, found in objects.items() if key not in defined}
    defined.update(new)
    if new:
        yield msgspec.json.encode({"define": new})


def _bound(pod: Object, node: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {}}


def _pending(pod: Object, nominated: str) -> Object:
    spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
    return {**without_history(pod), "spec": spec, "status": {"nominatedNodeName": nominated} if nominated else {}}

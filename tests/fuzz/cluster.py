"""The cluster that is asked about: some of each family of golden cases, in one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case, read_cases, read_lines

Object = dict[str, Any]

_GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
_CASES_OF_FAMILY = 2


@dataclass
class FuzzedCluster:
    """All objects, and those of them that requests name."""

    nodes: list[Object] = field(default_factory=list)
    running: list[Object] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)

    @property
    def objects(self) -> list[Object]:
        return [*self.nodes, *self.others, *self.running, *self.pending]

    @property
    def node_names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.nodes]


def golden_cluster() -> FuzzedCluster:
    """About 75 nodes and 350 pods with everything that plugins look at; the same each time."""
    cluster = FuzzedCluster()
    seen: set[tuple[str, str, str]] = set()
    for case in _cases():
        pending = _of_case(json.loads(bytes(case.pod)), case)
        cluster.pending.append(pending)
        for raw in case.objects:
            obj = json.loads(bytes(raw))
            if obj["kind"] == "Pod":
                cluster.running.append(_of_case(obj, case))
                continue
            metadata = obj["metadata"]
            key = (obj["kind"], metadata.get("namespace", ""), metadata["name"])
            if key not in seen:
                seen.add(key)
                (cluster.nodes if obj["kind"] == "Node" else cluster.others).append(obj)
    return cluster


def _cases() -> Iterator[Case]:
    for file in sorted(_GOLDEN.glob("*.cases.jsonl.gz")):
        yield from read_cases(read_lines(file))[:_CASES_OF_FAMILY]


def _of_case(pod: Object, case: Case) -> Object:
    """Cases give their pods the same names."""
    metadata = pod["metadata"]
    name = f"{case.name}-{metadata['name']}"
    return {**pod, "metadata": {**metadata, "name": name, "uid": f"uid-{name}"}}

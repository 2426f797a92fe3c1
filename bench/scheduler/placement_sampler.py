"""A plugin that remembers some placements with the state that they were decided on, and writes them down in the end.

It keeps references and one copied column, so that a sample costs some tens of microseconds while pods are bound. The
file is written when the program ends, after what is measured.
"""

import atexit
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.pods.pod_table import NO_ROW, PodFacts
from extender_service.config.model import Model
from extender_service.plugin_api import CycleState, Handle, Pod, Reserve, Status


class Placement(msgspec.Struct):
    """A pod, named namespace/name, its node, and the cluster without it at that moment.

    - `nominated`: the node that the pod itself was nominated for, or ""
    - `counted`: the nodes that other pods counted on
    - `nodes`: those that were there
    """

    pod: str
    node: str
    nominated: str
    counted: dict[str, str]
    nodes: list[str]


class PlacementSamplerArgs(Model):
    """The file to write, and which placements: every so manyth."""

    file: str
    every: int


class _Sample(NamedTuple):
    pod: str
    node: str
    nominated: str
    facts: Sequence[PodFacts | None]
    row: NDArray[np.intp]
    names: Sequence[str]
    present: Sequence[bool]

    def placement(self) -> Placement:
        counted = {
            f"{facts.namespace}/{facts.name}": self.names[row]
            for facts, row in zip(self.facts, self.row.tolist(), strict=False)
            if facts is not None and row != NO_ROW
        }
        counted.pop(self.pod, None)
        nodes = [name for name, is_there in zip(self.names, self.present, strict=False) if is_there]
        return Placement(self.pod, self.node, self.nominated, counted, nodes)


class PlacementSampler(Reserve):
    """Writes a file with samples. Reserve runs when a node is chosen and the pod does not count there yet."""

    name = "PlacementSampler"
    args_type = PlacementSamplerArgs
    args: PlacementSamplerArgs

    def __init__(self, args: PlacementSamplerArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._samples: list[_Sample] = []
        self._placed = 0
        atexit.register(self._write)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Take a sample if it is this placement's turn."""
        self._placed += 1
        if self._placed % self.args.every == 0:
            cluster = self.handle.cluster
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._samples.append(
                _Sample(
                    name,
                    node_name,
                    pod.status.nominated_node_name,
                    [*cluster.pods.facts],
                    cluster.pods.row.copy(),
                    cluster.nodes.names.tolist(),
                    [node is not None for node in cluster.nodes.objects],
                )
            )
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Keep the sample: the placement was decided, whatever comes of it."""

    def _write(self) -> None:
        lines = (msgspec.json.encode(sample.placement()) + b"\n" for sample in self._samples)
        Path(self.args.file).write_bytes(b"".join(lines))


def read_placements(file: Path) -> Iterator[Placement]:
    """Yield the placements that a program has written."""
    yield from msgspec.json.Decoder(Placement).decode_lines(file.read_bytes())

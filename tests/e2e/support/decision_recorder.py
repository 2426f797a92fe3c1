"""A user's plugin that writes down each decision, and what the service took for granted when it made it."""

from pathlib import Path

import msgspec

from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.config.model import Model
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Reserve
from extender_service.framework.status import Status
from extender_service.kube.types.core import Pod


class Decision(msgspec.Struct):
    """The node chosen for a pod, and the nodes that other pods counted on at that moment; pods as namespace/name."""

    pod: str
    node: str
    counted: dict[str, str]


class DecisionRecorderArgs(Model):
    """The file that decisions are added to, one JSON object per line."""

    file: str


class DecisionRecorder(Reserve):
    """Reserve runs between the choice of a node and the moment from which the pod counts there."""

    name = "DecisionRecorder"
    args_type = DecisionRecorderArgs
    args: DecisionRecorderArgs

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        pods, node_names = self.handle.cluster.pods, self.handle.cluster.nodes.names
        rows: list[int] = pods.row.tolist()
        counted = {
            f"{facts.namespace}/{facts.name}": node_names[rows[slot]]
            for slot, facts in enumerate(pods.facts)
            if facts is not None and rows[slot] != NO_ROW
        }
        decision = Decision(f"{pod.metadata.namespace}/{pod.metadata.name}", node_name, counted)
        with Path(self.args.file).open("ab") as file:
            file.write(msgspec.json.encode(decision) + b"\n")
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """A decision stays one, whatever comes of it."""


def read_decisions(file: Path) -> list[Decision]:
    """The decisions in a file, in their order."""
    return msgspec.json.Decoder(Decision).decode_lines(file.read_bytes())

"""A user's plugin that writes down each decision, and the state of the cluster that it was made on."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.config.model import Model
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import FilterAgain, PostFilter, PostFilterResult, Reserve
from extender_service.framework.status import Code, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod


class Decision(msgspec.Struct):
    """The node chosen for a pod, "" if none was feasible, and the state at that moment. Pods are named namespace/name.

    - `counted`: the nodes that other pods counted on
    - `nodes`: the resource version of each node
    """

    pod: str
    node: str
    counted: dict[str, str]
    nodes: dict[str, str]


class DecisionRecorderArgs(Model):
    """The file that decisions are added to, one JSON object per line. A second process needs a file of its own."""

    file: str


class DecisionRecorder(Reserve, PostFilter):
    """Writes decisions down; of the state, what has changed since the last one. Enable Reserve, and PostFilter too.

    Reserve runs between the choice of a node and the moment from which the pod counts there, PostFilter when no node is
    feasible.
    """

    name = "DecisionRecorder"
    args_type = DecisionRecorderArgs
    args: DecisionRecorderArgs

    def __init__(self, args: DecisionRecorderArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # The state of the last decision.
        self._counted: dict[str, str] = {}
        self._nodes: dict[str, str] = {}

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self._record(pod, node_name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """A decision stays one, whatever comes of it."""

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        self._record(pod, "")
        return PostFilterResult(Status(Code.UNSCHEDULABLE, ()))

    def _record(self, pod: Pod, node_name: str) -> None:
        counted, nodes = self._counted_now(), self._nodes_now()
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        decision = Decision(name, node_name, _changes(self._counted, counted), _changes(self._nodes, nodes))
        self._counted, self._nodes = counted, nodes
        with Path(self.args.file).open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(decision) + b"\n")

    def _counted_now(self) -> dict[str, str]:
        pods, names = self.handle.cluster.pods, self.handle.cluster.nodes.names
        rows: list[int] = pods.row.tolist()
        return {
            f"{facts.namespace}/{facts.name}": names[rows[slot]]
            for slot, facts in enumerate(pods.facts)
            if facts is not None and rows[slot] != NO_ROW
        }

    def _nodes_now(self) -> dict[str, str]:
        nodes = self.handle.cluster.nodes.objects
        return {node.metadata.name: node.metadata.resource_version for node in nodes if node is not None}


def read_decisions(file: Path) -> Iterator[Decision]:
    """Yield the decisions in a file, in their order, each with the whole state.

    Nothing came of a decision whose line is cut off, as the process was killed meanwhile: it is left out.
    """
    counted, nodes = dict[str, str](), dict[str, str]()
    whole, _, _ = file.read_bytes().rpartition(b"\n")
    for decision in msgspec.json.Decoder(Decision).decode_lines(whole):
        _apply(counted, decision.counted)
        _apply(nodes, decision.nodes)
        yield Decision(decision.pod, decision.node, dict(counted), dict(nodes))


def _changes(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    return {**dict.fromkeys(before.keys() - now.keys(), ""), **dict(now.items() - before.items())}


def _apply(state: dict[str, str], changes: dict[str, str]) -> None:
    for name, value in changes.items():
        if value:
            state[name] = value
        else:
            state.pop(name, None)

"""Replays decisions: the oracle, which runs kube-scheduler's own plugins, judges each on the state that it had."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from tests.conformance.cases import Verdict
from tests.e2e.support.objects import Object
from tests.e2e.support.oracle_cases import without_history
from tests.e2e.support.plugins.decision_recorder import Decision, read_decisions
from tests.scheduler_faults.cluster_changes import NodeHistory

AskOracle = Callable[[bytes], bytes]

# Decisions that are asked about at once; the verdict on one is some 300 KB in a cluster of 1,000 nodes.
_BATCH = 200


class Replay:
    """Judges decisions. `differences` are texts, `counts` says how many decisions chose a node, or none."""

    def __init__(
        self, ask_oracle: AskOracle, nodes: NodeHistory, pods: Mapping[str, Object], around: Sequence[msgspec.Raw]
    ) -> None:
        """`pods` are all that ever were, by namespace/name; `around` are the other objects, which do not change."""
        self.differences: list[str] = []
        self.counts = Counter[str]()
        self.rejecting = Counter[str]()
        self._ask_oracle = ask_oracle
        self._nodes = nodes
        self._pods = pods
        self._around = around

    def judge(self, decisions: Iterator[Decision]) -> None:
        """Judge the decisions of one process, in their order."""
        while batch := [*islice(decisions, _BATCH)]:
            asked = _Batch(self._nodes, self._pods, self._around)
            known = [decision for decision in batch if self._is_known(decision)]
            lines = [asked.case(decision) for decision in known]
            answer = self._ask_oracle(b"\n".join([asked.definitions(), *lines])) if lines else b""
            for decision, verdict in zip(known, answer.splitlines(), strict=True):
                self._compare(decision, msgspec.json.decode(verdict))

    def _is_known(self, decision: Decision) -> bool:
        """Return whether the state is one that the cluster had: pods and nodes that were there, in these versions."""
        unknown = [
            f"node {name} at version {version}"
            for name, version in decision.nodes.items()
            if self._nodes.find(name, version) is None
        ]
        unknown += [f"pod {name}" for name in (decision.pod, *decision.counted) if name not in self._pods]
        if unknown:
            self.differences.append(f"{decision.pod} was judged on what never was: {', '.join(unknown[:3])}")
        return not unknown

    def _compare(self, decision: Decision, verdict: Verdict) -> None:
        self.counts["placed" if decision.node else "refused"] += 1
        if decision.pod in decision.counted:
            self.differences.append(f"{decision.pod} was judged though it counted on {decision.counted[decision.pod]}")
        error = verdict.get("error") or verdict.get("cycleError")
        if error:
            self.differences.append(f"{decision.pod}: {error}")
            return
        self.rejecting.update(plugin for plugin, nodes in (verdict["filterByPlugin"] or {}).items() if nodes)
        totals: dict[str, int] = verdict.get("total") or {}
        if not decision.node:
            if totals:
                self.differences.append(f"{decision.pod} was refused, though it fits on {[*totals][:3]}")
        elif decision.node not in totals:
            why = (verdict["filter"] or {}).get(decision.node, verdict["preFilter"])
            self.differences.append(f"{decision.pod} was put on {decision.node}, which fails: {why}")
        elif totals[decision.node] < max(totals.values()):
            best = max(totals, key=totals.__getitem__)
            scores = {plugin: (by_node[decision.node], by_node[best]) for plugin, by_node in verdict["score"].items()}
            self.differences.append(f"{decision.pod} was put on {decision.node}; {best} is better: {scores}")


class _Batch:
    """Cases for the oracle in which objects are defined once."""

    def __init__(self, nodes: NodeHistory, pods: Mapping[str, Object], around: Sequence[msgspec.Raw]) -> None:
        self._nodes = nodes
        self._pods = pods
        self._defined: dict[str, object] = {f"around {number}": found for number, found in enumerate(around)}
        self._around = [*self._defined]

    def case(self, decision: Decision) -> bytes:
        """Return the case of a decision. Pods on nodes that are gone are left out, as the oracle would do."""
        objects = [*self._around]
        for name, version in decision.nodes.items():
            key = f"node {name} {version}"
            if key not in self._defined:
                found = self._nodes.find(name, version)
                assert found is not None
                self._defined[key] = without_history({"apiVersion": "v1", "kind": "Node", **found})
            objects.append(key)
        for name, node in decision.counted.items():
            key = f"pod {name} {node}"
            if key not in self._defined:
                self._defined[key] = pending(self._pods[name], nodeName=node)
            objects.append(key)
        pod = pending(self._pods[decision.pod])
        return msgspec.json.encode({"name": decision.pod, "pod": pod, "objects": objects})

    def definitions(self) -> bytes:
        """Return the line that defines what the cases up to now refer to."""
        return msgspec.json.encode({"define": self._defined})


def pending(pod: Object, **spec: str) -> Object:
    """Return a pod as it was before its binding; `spec` is added."""
    kept = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    whole = {"apiVersion": "v1", "kind": "Pod", **without_history(pod)}
    return {**whole, "spec": {**kept, **spec}, "status": {}}


def forgotten_or_imagined(
    file: Path, before: Mapping[str, str], own: Mapping[str, str], ends: Mapping[str, str], lost: Collection[str]
) -> Iterator[str]:
    """Yield what the state of a process's decisions lacks, or has without reason.

    What other leaders have bound `before` must count, and what this process has bound (`own`) from its last decision
    about the pod on, unless the pod was `lost` with its node. A pod may only count where it is in the end (`ends`), or
    where this process has placed it.
    """
    last = {decision.pod: number for number, decision in enumerate(read_decisions(file))}
    required, placed = dict(before), dict[str, str]()
    for number, decision in enumerate(read_decisions(file)):
        for name, node in required.items() - decision.counted.items():
            if name not in lost:
                yield f"{decision.pod} was judged without {name}, which was on {node}"
        for name, node in decision.counted.items() - ends.items():
            if node != placed.get(name):
                yield f"{decision.pod} was judged with {name} on {node}, where it never was"
        placed[decision.pod] = decision.node
        if own.get(decision.pod) == decision.node and last[decision.pod] == number:
            required[decision.pod] = decision.node

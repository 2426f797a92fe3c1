"""Compares which nodes our scheduler looks at with those that kube-scheduler looks at, pod after pod."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from extender_service.cluster.sources.stores import NodeStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.loading import parse_config
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreScore
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import Code, Rejections, Status
from extender_service.kube.types.core import Node, Pod
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduler.attempt import Attempts
from extender_service.scheduler.fit_error import fit_error_of
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.node_sampling import NodeSampling, percentages
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from tests.lockstep.sampling.generator import Script
from tests.support.go_programs import build
from tests.support.objects import watched

REFERENCE = Path(__file__).parents[1] / "reference_sampling"

Answer = dict[str, Any]


class Observer(Filter, PreScore):
    """Notes the nodes that are scored, and fails on those that the label `fails` says so of."""

    name = "Observer"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.candidates: list[str] = []

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        fails = [node is not None and "fails" in node.metadata.labels for node in nodes.objects]
        names = nodes.names
        keys = np.where(fails, np.arange(1, len(names) + 1), 0)
        return Rejections(keys, lambda key: Status(Code.ERROR, (f"it fails on {names[key - 1]}",)), may_be_errors=True)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> None:
        self.candidates = sorted(nodes.names)


class _World:
    def __init__(self, config: Mapping[str, Any]) -> None:
        read = parse_config(json.dumps(config), ARGS_TYPES)
        self.cluster = Cluster()
        profiles = Registry([*IN_TREE, Observer]).profiles(read, Handle(self.cluster, None))  # type: ignore[arg-type]
        self.observers = [p for each in profiles.values() for p in each.rejecting if isinstance(p, Observer)]
        wanted = percentages(read)
        assert wanted is not None
        self.sampling = NodeSampling(NodeOrder(self.cluster.nodes), wanted)
        self.engine = Engine(self.cluster, Profiles(profiles), None)  # type: ignore[arg-type]  # binds nothing
        self.attempts = Attempts(self.engine, TimeLimit(lambda: 0.0), self.sampling)
        self.nodes = NodeStore(self.cluster)

    def apply(self, node: Node) -> None:
        self.nodes.apply(node)
        self.sampling.order.apply(node)

    def remove(self, name: str) -> None:
        self.nodes.remove(("", name))
        self.sampling.order.remove(name)

    def schedule(self, pod: Pod, host: str) -> tuple[Answer, list[str]]:
        """Return our answer about a pod, which is put on `host`, and the nodes that are as good as the chosen one."""
        for observer in self.observers:
            observer.candidates = []
        answer: Answer = {"evaluated": 0, "feasible": 0}
        best: list[str] = []
        try:
            decision = self.attempts.decide(pod)
        except CycleError as error:
            answer["error"] = str(error)
        else:
            if len(decision.feasible):
                looked_at = len(decision.feasible) + _rejected(decision, pod)
                answer |= {"feasible": len(decision.feasible), "evaluated": looked_at}
                best = decision.question.nodes.view.names_at(decision.best)
            else:
                self.engine.post_filter(decision.question, decision)  # it may give the nominated node a verdict
                answer["error"] = fit_error_of(decision, self.cluster.node_count).message
        candidates = sorted({name for observer in self.observers for name in observer.candidates})
        if candidates:
            answer["candidates"] = candidates
        answer["next"] = self.sampling.next_start
        if host:
            spec = msgspec.structs.replace(pod.spec, node_name=host)
            self.cluster.apply_pod(watched(msgspec.structs.replace(pod, spec=spec)))
        return answer, best


def _rejected(decision: Decision, pod: Pod) -> int:
    """Count the nodes with a status: those that were rejected, and a nominated one, also if PreFilter left it out."""
    nominated = decision.question.nodes.view.position_of(pod.status.nominated_node_name)
    rejected = 0
    for status, where in decision.verdicts.groups():
        rejected += len(where) if status.plugin else int(nominated in where)
    return rejected


def compare(scripts: Iterable[Script]) -> Counter[str]:
    """Run scripts with both, and count what happened. Raises AssertionError that names the seed and the pod."""
    written = list(scripts)
    seen: Counter[str] = Counter()
    for script, answers in zip(written, _answers(written), strict=True):
        world = _World(script["config"])
        theirs = iter(answers)
        for number, step in enumerate(script["steps"]):
            if "node" in step:
                world.apply(msgspec.convert(step["node"], Node))
            elif "remove" in step:
                world.remove(step["remove"])
            else:
                expected = next(theirs)
                host = expected.pop("host", "")
                ours, best = world.schedule(msgspec.convert(step["pod"], Pod), host)
                assert ours == expected, f"{script['name']}, step {number}: {step}\nours {ours}\ntheirs {expected}"
                assert not host or host in best, f"{script['name']}, step {number}: {host} is none of {best}"
                seen["failed" if "it fails on" in ours.get("error", "") else "bound" if host else "unfit"] += 1
                seen["sampled"] += 0 < ours["evaluated"] < world.cluster.node_count
    return seen


def _answers(scripts: list[Script]) -> Iterable[list[Answer]]:
    lines = b"\n".join(msgspec.json.encode(script) for script in scripts)
    done = subprocess.run([build(REFERENCE)], input=lines, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"the reference failed: {done.stderr.decode()}")
    decoder = msgspec.json.Decoder(list[Answer])
    return (decoder.decode(line) for line in done.stdout.splitlines())

"""This project's answers on the cases of the queueing hints, in the form of those of reference_hints."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.known_gates import known_gates
from extender_service.config.loading import default_config, parse_config
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ASSIGNED_POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.events import reported_events
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.queueing_hints import RegisteredHint, queueing_hints
from extender_service.framework.registry.registry import Registry
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.manifests import KINDS
from extender_service.kube.parsing.pod_affinity import pod_affinity_terms
from extender_service.kube.types.core import Node, Object, Pod
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.plugins.default_preemption import DefaultPreemption
from extender_service.plugins.dynamic_resources import DynamicResources
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.queue.interested_plugins import as_registered
from extender_service.scheduler.assigned_pods import assigned_pod
from tests.lockstep.action_bits import bits, with_bits
from tests.support.go_programs import build
from tests.support.objects import make_node

_TESTS = Path(__file__).parents[2]
_OLDEST = _TESTS / "lockstep" / "reference_hints"
_LATER = _TESTS / "kubernetes_1_37" / "reference_hints_1_37"

_GATE = "SchedulerQueueingHints"

# DynamicResources is not ported. DefaultPreemption's hint always says QueueSkip.
LEFT_OUT = {DynamicResources.name, DefaultPreemption.name}

Json = dict[str, Any]

_decoders: dict[type[Object], Decoder[Any]] = {kind: Decoder(kind) for kind in KINDS.values()}
_pending_pods: Decoder[Any] = Decoder(PendingPod)


def reference(minor: int) -> Path:
    """Build the program that runs the hints of a release of kube-scheduler, unless it is there, and return it."""
    if minor == OLDEST_MINOR:
        return build(_OLDEST)
    return build(_LATER, None if minor == NEWEST_MINOR else minor)


def ask(cases: bytes, minor: int = OLDEST_MINOR) -> list[Json]:
    """Return kube-scheduler's answers on cases, which are JSON lines. Raises RuntimeError with what Go said."""
    done = subprocess.run([reference(minor)], input=cases, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"reference_hints failed: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def encoded(cases: Iterable[Json], minor: int = OLDEST_MINOR) -> bytes:
    """Return cases as JSON lines for a release."""
    return b"".join(msgspec.json.encode(with_bits(case, minor)) + b"\n" for case in cases)


class Answers:
    """Our answers on one case."""

    def __init__(self, case: Json, minor: int) -> None:
        self._case = case
        self._minor = minor
        rules = rules_of(minor, {_GATE: case["hints"]} if _hints_are_optional(minor) else {})
        self._rules = rules
        self._enabled = rules.queueing_hints
        self._wants = ClusterEvent.covers if rules.other_updates_for_all else ClusterEvent.matches
        self._reported = reported_events(rules)
        cluster = Cluster(rules)
        for raw in case["objects"]:
            item = _decoded(raw)
            assert isinstance(item, WORKLOADS)
            cluster.workloads.apply(item)
        config = default_config(ARGS_TYPES, rules)
        if case["config"] is not None:
            config = parse_config(json.dumps(case["config"]), ARGS_TYPES, rules)
        handle = Handle(cluster, ClusterFile(cluster, []))
        profile = next(iter(Registry(IN_TREE, rules=rules).profiles(config, handle).values()))
        self._plugins = {plugin.name: plugin for plugin in profile.rejecting}
        self._map = queueing_hints(profile.rejecting, rules)

    def all(self) -> Json:
        """Return them as reference_hints does."""
        pod = _decoded(self._case["pod"])
        assert isinstance(pod, Pod)
        return {
            "name": self._case["name"],
            "registered": {
                f"{event.resource} {bits(event.action, self._minor)}": [hint.plugin for hint in hints]
                for event, hints in self._map.items()
            },
            "events": [self._on(event, pod) for event in self._case["events"]],
        }

    def _on(self, event: Json, pod: Pod) -> Json:
        happened = ClusterEvent(event["resource"], ActionType(event["action"]))
        old, new = (None if event[key] is None else _decoded(event[key]) for key in ("old", "new"))
        asked = (pod, self._shown(old, happened), self._shown(new, happened))
        said = {
            f"{hint.plugin} on {registered.resource} {bits(registered.action, self._minor)}": self._said(
                hint, registered, (as_registered(happened, registered), *asked)
            )
            for registered, hints in self._map.items()
            if self._wants(registered, happened)
            for hint in hints
        }
        means = self._meaning(old, new)
        return {"hints": said, "means": means} if means else {"hints": said}

    def _shown(self, item: Object | None, happened: ClusterEvent) -> Object | None:
        """Return an object as an event of `schedule` shows it: of a pod on a node, only what the cluster keeps."""
        if happened.resource != ASSIGNED_POD or not isinstance(item, Pod) or not item.spec.node_name:
            return item
        if pod_affinity_terms(item.metadata.namespace, item.spec.affinity).errors:
            return item  # the API server admits no such pod, and the cluster keeps no terms of it
        cluster = Cluster(self._rules)
        cluster.apply_node(make_node(item.spec.node_name))
        cluster.apply_pod(item)
        return assigned_pod(cluster, (item.metadata.namespace, item.metadata.name))

    def _meaning(self, old: object, new: object) -> list[str]:
        events: list[ClusterEvent] = []
        if isinstance(old, Node) and isinstance(new, Node):
            events = self._reported.node_changes(old, new)
        elif isinstance(old, Pod) and isinstance(new, Pod):
            events = self._reported.pod_changes(old, new)
        return [f"{event.resource} {bits(event.action, self._minor)} {event.label}" for event in events]

    def _said(
        self, hint: RegisteredHint, registered: ClusterEvent, asked: tuple[ClusterEvent, Pod, object, object]
    ) -> str:
        """Return the hint, or "error" where the plugin raised and the pod is therefore tried again."""
        answer = hint.ask(*asked)
        plugin = self._plugins[hint.plugin]
        if self._enabled and registered in plugin.retry_on:
            try:
                plugin.queueing_hint(*asked)
            except PluginError:
                assert answer is QueueingHint.QUEUE
                return "error"
        return answer.value


def _hints_are_optional(minor: int) -> bool:
    """Return whether a release lets hints be turned off."""
    gate = known_gates(minor).get(_GATE)
    return gate is not None and not gate.is_locked


def _decoded(raw: Json) -> Object:
    """Return an object as `schedule` does, which knows more of pods that wait."""
    kind = KINDS[raw["apiVersion"], raw["kind"]]
    decoder = _pending_pods if kind is Pod and not raw["spec"].get("nodeName") else _decoders[kind]
    item: Object = decoder.decode(msgspec.json.encode(raw))
    return item


def differences(cases: Iterable[Json], reference: Iterable[Json], minor: int = OLDEST_MINOR) -> list[str]:
    """Return where our answers are not kube-scheduler's, a line for each."""
    found: list[str] = []
    for case, theirs in zip(cases, reference, strict=True):
        if "error" in theirs:
            found.append(f"{case['name']}: the reference refuses it: {theirs['error']}")
            continue
        ours = Answers(case, minor).all()
        if minor != OLDEST_MINOR:
            ours, theirs = _without_left_out(ours), _without_left_out(theirs)
        if _sorted(ours["registered"]) != _sorted(theirs["registered"]):
            found.append(f"{case['name']}: registered {ours['registered']}, not {theirs['registered']}")
        for index, (event, our, their) in enumerate(zip(case["events"], ours["events"], theirs["events"], strict=True)):
            if our != their:
                about = f"{case['name']} event {index} ({event['resource']} {event['action']})"
                found.append(f"{about}: {_beyond(our, their)}, not {_beyond(their, our)}")
    return found


def _without_left_out(answers: Json) -> Json:
    """Return answers of a later release without those that are not compared."""

    def is_compared(asked: str) -> bool:
        plugin, _, resource = asked.partition(" on ")
        return plugin not in LEFT_OUT and not resource.startswith("resource.k8s.io/")

    registered = {
        event: [plugin for plugin in plugins if is_compared(f"{plugin} on {event}")]
        for event, plugins in answers["registered"].items()
    }
    events = [
        event | {"hints": {asked: said for asked, said in event["hints"].items() if is_compared(asked)}}
        for event in answers["events"]
    ]
    return answers | {
        "registered": {event: plugins for event, plugins in registered.items() if plugins},
        "events": events,
    }


def _sorted(registered: dict[str, list[str]]) -> dict[str, list[str]]:
    # The order of plugins is that of Go's map of them.
    return {event: sorted(plugins) for event, plugins in registered.items()}


def _beyond(answer: Json, other: Json) -> Json:
    """Return the part of an answer that another does not have."""
    hints = {key: said for key, said in answer["hints"].items() if other["hints"].get(key) != said}
    return hints if answer.get("means") == other.get("means") else {**hints, "means": answer.get("means")}

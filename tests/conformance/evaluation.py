"""This project's verdict on a case, in the oracle's form."""

import copy
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import structs

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import STORAGE
from extender_service.config.loading import default_config, parse_config
from extender_service.config.rules import Rules
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import UNRESTRICTED, PreFilterOutcome, filter_nodes
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.preemption.filtering_again import judge_nominated_node
from extender_service.framework.profile import Profile
from extender_service.framework.registry.registry import Registry
from extender_service.framework.runtime import run_pre_enqueue, run_pre_filter, run_pre_score, run_score
from extender_service.framework.status import Code, Rejections, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.parsing.api_defaults import default_metadata
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.manifests import CLUSTER_SCOPED, KINDS
from extender_service.kube.types.core import Node, Object, Pod
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from tests.conformance.cases import Case, Verdict
from tests.conformance.preemption import preempted

T = TypeVar("T", bound=Object)


class _Head(Object):
    api_version: str = ""
    kind: str = ""


_heads = Decoder(_Head)
_decoders: dict[type[Object], Decoder[Any]] = {kind: Decoder(kind) for kind in KINDS.values()}


def _failing_per_node(plugin: Filter) -> Filter:
    """Let a plugin's failure be the verdict on each node, as in kube-scheduler; else it ends the cycle at once."""

    class FailingPerNode(Filter):
        name = plugin.name

        def __init__(self) -> None:
            """Needs neither arguments nor a handle."""

        def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
            try:
                return plugin.filter(state, pod, nodes)
            except PluginError as error:
                return Rejections.where(np.ones(len(nodes), np.bool_), Status(Code.ERROR, (str(error),)))

    return FailingPerNode()


class Evaluation:
    """One case, set up: a cluster, the pod, and the profile that decides."""

    def __init__(self, case: Case, rules: Rules, cluster: Cluster | None = None) -> None:
        """Take a new cluster, or one of the same rules to which the objects of the case are still to be added."""
        self.cluster = Cluster(rules) if cluster is None else cluster
        self.node_names: list[str] = []
        if cluster is None:
            for raw in case.objects:
                self.apply(raw)
        self.pod = _with_identity(_decoders[Pod].decode(case.pod))
        profiles = Registry(IN_TREE, rules=rules).profiles(
            _config(case, rules), Handle(self.cluster, ClusterFile(self.cluster, []))
        )
        self.scheduler_names = list(profiles)
        self.profile: Profile = profiles[self.pod.spec.scheduler_name]
        # Where preemption judges nodes, the profile itself does.
        self.failing_per_node = copy.copy(self.profile)
        self.failing_per_node.filter = tuple(_failing_per_node(plugin) for plugin in self.profile.filter)

    @property
    def nodes(self) -> NodeView:
        """All nodes, as they are now."""
        return self.cluster.view(None)

    def apply(self, raw: msgspec.Raw) -> None:
        """Add an object of the case to the cluster."""
        head = _heads.decode(raw)
        kind = KINDS.get((head.api_version, head.kind))
        if kind is not None:
            self._apply(_decoders[kind].decode(raw))

    def _apply(self, item: Object) -> None:
        if isinstance(item, Node):
            self.node_names.append(item.metadata.name)
            self.cluster.apply_node(item)
        elif isinstance(item, Pod):
            self.cluster.apply_pod(self._distinct(_with_identity(item)))
        elif isinstance(item, WORKLOADS):
            self.cluster.workloads.apply(_with_namespace(item))
        elif isinstance(item, STORAGE):
            self.cluster.apply_storage(_with_namespace(item))

    def _distinct(self, pod: Pod) -> Pod:
        """Rename a pod with the name of an earlier one: the oracle counts both; an API server never has two such."""
        name = pod.metadata.name
        while (pod.metadata.namespace, name) in self.cluster.pod_keys():
            name += "-again"
        if name == pod.metadata.name:
            return pod
        return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{name}"))


def evaluate(case: Case, rules: Rules, feasible: list[str] | None = None) -> Verdict:
    """Evaluate a case; with `feasible`, those nodes are scored, whatever Filter says."""
    return verdict_of(case.name, Evaluation(case, rules), feasible)


def verdict_of(name: str, evaluation: Evaluation, feasible: list[str] | None) -> Verdict:
    """Say what is decided in the cluster as it is now."""
    state = CycleState(evaluation.pod, rules=evaluation.cluster.request_rules)
    verdict: Verdict = {"name": name, "feasible": [], "preScore": None, "raw": None, "score": None, "total": None}
    gate = run_pre_enqueue(evaluation.profile, evaluation.pod)
    if gate is not None:
        return verdict | {"preEnqueue": _plugin_status(gate)}
    try:
        found = run_pre_filter(evaluation.profile, state, evaluation.pod)
    except CycleError as failure:
        return verdict | {"preFilter": _failed_pre_filter(str(failure), state), "cycleError": str(failure)}
    try:
        verdict["preFilter"] = _pre_filter(found, state)
        verdict["filter"] = None
        if found.rejection is None:
            verdict |= _filtered(evaluation, state, found)
        verdict["filterByPlugin"] = _filter_by_plugin(evaluation, state, found)
        to_score = verdict["feasible"] if feasible is None else feasible
        if to_score:
            verdict |= _scores(evaluation, state, to_score)
        elif "cycleError" not in verdict and evaluation.profile.post_filter:
            verdict["preempt"] = preempted(evaluation, state, _judge_all(evaluation, state, found))
    except CycleError as error:
        verdict["cycleError"] = str(error)
    return verdict


def _filtered(evaluation: Evaluation, state: CycleState, found: PreFilterOutcome) -> dict[str, Any]:
    """Filter as findNodesThatFitPod does: the pod's nominated node first, and alone if it fits."""
    statuses: dict[str, Any] = {}
    first = _judge_nominated_node(evaluation, state)
    if first is not None:
        if first.passing.all():
            return {"filter": {}, "feasible": [evaluation.pod.status.nominated_node_name]}
        statuses = _statuses(first.view, first)
    verdicts = _judge(evaluation, state, evaluation.nodes, found)
    statuses |= _statuses(evaluation.nodes, verdicts)
    failed = verdicts.first_error()
    if failed is not None:
        return {"filter": statuses, "cycleError": _failed_filter(failed)}
    passing = {evaluation.nodes.names[position] for position in np.flatnonzero(verdicts.passing)}
    return {"filter": statuses, "feasible": [name for name in evaluation.node_names if name in passing]}


def _judge_nominated_node(evaluation: Evaluation, state: CycleState) -> Verdicts | None:
    nominated_node = evaluation.pod.status.nominated_node_name
    if nominated_node not in evaluation.node_names:
        return None
    nodes = evaluation.cluster.view(evaluation.cluster.nodes.rows_named([nominated_node]))
    return _judge(evaluation, state, nodes, UNRESTRICTED)


def _judge_all(evaluation: Evaluation, state: CycleState, found: PreFilterOutcome) -> Verdicts:
    """Judge all nodes as PostFilter is given them."""
    verdicts = _judge(evaluation, state, evaluation.nodes, found)
    nominated = evaluation.cluster.nominated_for(evaluation.pod, evaluation.scheduler_names)
    judge_nominated_node(evaluation.profile, state, evaluation.pod, verdicts, nominated)
    return verdicts


def _judge(evaluation: Evaluation, state: CycleState, nodes: NodeView, found: PreFilterOutcome) -> Verdicts:
    nominated = evaluation.cluster.nominated_for(evaluation.pod, evaluation.scheduler_names)
    return filter_nodes(evaluation.failing_per_node, state, evaluation.pod, nodes, nodes.exists, found, nominated)


def _pre_filter(found: PreFilterOutcome, state: CycleState) -> dict[str, Any]:
    status = found.rejection or Status(Code.SUCCESS)
    return {
        **_plugin_status(status),
        "nodeNames": None if found.node_names is None else sorted(found.node_names),
        "skipped": sorted(state.skipped_filters),
    }


def _failed_pre_filter(message: str, state: CycleState) -> dict[str, Any]:
    plugin = message.split('"')[1]
    return {
        **_plugin_status(Status(Code.ERROR, (message,), plugin)),
        "nodeNames": None,
        "skipped": sorted(state.skipped_filters),
    }


def _statuses(nodes: NodeView, verdicts: Verdicts) -> dict[str, Any]:
    names = nodes.names
    return {
        names[position]: _plugin_status(_as_framework_says(status))
        for status, positions in verdicts.groups()
        if status.plugin
        for position in positions
    }


def _as_framework_says(status: Status) -> Status:
    return structs.replace(status, reasons=(_failed_filter(status),)) if status.code == Code.ERROR else status


def _failed_filter(error: Status) -> str:
    return f'running "{error.plugin}" filter plugin: {error.message}'


def _filter_by_plugin(evaluation: Evaluation, state: CycleState, found: PreFilterOutcome) -> dict[str, Any] | None:
    if found.rejection is not None:
        return None
    names = evaluation.nodes.names
    by_plugin: dict[str, Any] = {}
    for plugin in evaluation.failing_per_node.filter:
        if plugin.name in state.skipped_filters:
            continue
        rejections = plugin.filter(state, evaluation.pod, evaluation.nodes)
        exists = evaluation.nodes.exists
        by_plugin[plugin.name] = {
            names[position]: _status(rejections.status_of(key))
            for position, key in enumerate(rejections.keys.tolist() if rejections is not None else ())
            if rejections is not None and key and exists[position]
        }
    return by_plugin


def _scores(evaluation: Evaluation, state: CycleState, names: list[str]) -> dict[str, Any]:
    nodes = evaluation.cluster.view(evaluation.cluster.nodes.rows_named(names))
    try:
        run_pre_score(evaluation.profile, state, evaluation.pod, nodes)
    except CycleError as error:
        failed = {"code": Code.ERROR.label, "reasons": [str(error)], "skipped": sorted(state.skipped_scores)}
        return {"preScore": failed, "cycleError": str(error)}
    judged: dict[str, Any] = {
        "preScore": {"code": Code.SUCCESS.label, "reasons": [], "skipped": sorted(state.skipped_scores)},
        "raw": {
            plugin.name: _raw_scores(plugin, evaluation, state, nodes, names)
            for plugin, _ in evaluation.profile.score
            if plugin.name not in state.skipped_scores
        },
    }
    try:
        scores = run_score(evaluation.profile, state, evaluation.pod, nodes)
    except CycleError as error:
        return judged | {"cycleError": str(error)}
    return judged | {
        "score": {
            plugin: dict(zip(names, weighted.tolist(), strict=True)) for plugin, weighted in scores.weighted.items()
        },
        "total": dict(zip(names, scores.totals.tolist(), strict=True)),
    }


def _raw_scores(
    plugin: Score, evaluation: Evaluation, state: CycleState, nodes: NodeView, names: list[str]
) -> dict[str, int]:
    try:
        return dict(zip(names, plugin.score(state, evaluation.pod, nodes).tolist(), strict=True))
    except PluginError:
        return {}  # the oracle leaves out nodes whose score is an error


def _status(status: Status) -> dict[str, Any]:
    return {"code": status.code.label, "reasons": list(status.reasons)}


def _plugin_status(status: Status) -> dict[str, Any]:
    return {"plugin": status.plugin or None, **_status(status)}


def _config(case: Case, rules: Rules) -> KubeSchedulerConfiguration:
    if case.config is None:
        return default_config(ARGS_TYPES, rules)
    return parse_config(msgspec.json.encode(case.config).decode(), ARGS_TYPES, rules)


def _with_namespace(item: T) -> T:
    namespaced = type(item) not in CLUSTER_SCOPED
    metadata = default_metadata(item.metadata, namespaced=namespaced)  # type: ignore[attr-defined]
    return structs.replace(item, metadata=metadata)


def _with_identity(pod: Pod) -> Pod:
    """Fill in what the oracle fills in."""
    namespace = pod.metadata.namespace or "default"
    uid = pod.metadata.uid or f"{namespace}/{pod.metadata.name}"
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, namespace=namespace, uid=uid),
        spec=structs.replace(pod.spec, scheduler_name=pod.spec.scheduler_name or "default-scheduler"),
    )

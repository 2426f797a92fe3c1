"""One extender: what it is asked, and what its answers mean (extender.go)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import inspect

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.config.types import Extender
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.posts import Posts
from extender_service.kube.credentials.urls import without_user
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.parsing.go_names import with_go_names
from extender_service.kube.resources.nodes_with_json import NodeWithJson
from extender_service.kube.types.core import Int64, Pod
from extender_service.kube.types.extender_api import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    MetaVictims,
    NodeHead,
    ResultNodeList,
)
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.eviction import Victim

PodJson = Callable[[str, str], Awaitable[bytes]]
"""Returns the JSON of a pod by namespace and name. Raises KubeError."""

# framework.MaxNodeScore / extenderv1.MaxExtenderPriority
_SCALE: Final = 10

_node_head = Decoder(NodeHead)
_R = TypeVar("_R")


class ExtenderError(KubeError):
    """An extender did not answer, refused, or gave an answer that means nothing; the text says which extender."""


# As Go reads answers: a field that is missing has its zero value.
class _Nodes(ResultNodeList):
    items: list[msgspec.Raw] = []


class _FilterResult(ExtenderFilterResult):
    nodes: _Nodes | None = None


class _Priority(HostPriority):
    host: str = ""
    score: Int64 = 0


class _PreemptionResult(ExtenderPreemptionResult):
    node_name_to_meta_victims: dict[str, MetaVictims] = {}


class ProposedVictims(msgspec.Struct, frozen=True):
    """The pods to delete from a node, and how many of these deletions violate a PodDisruptionBudget."""

    pods: tuple[Victim, ...]
    pdb_violations: int


class ExtenderClient:
    """Asks one extender. All methods raise ExtenderError.

    `table` has the nodes, with their JSON if the extender is not nodeCacheCapable. `pod_json` reads pods that run.
    """

    def __init__(self, config: Extender, posts: Posts, table: NodeTable, pod_json: PodJson) -> None:
        self.config = config
        self.name = without_user(config.url_prefix)
        self._posts = posts
        self._table = table
        self._pod_json = pod_json
        self._managed = frozenset(resource.name for resource in config.managed_resources)

    def is_interested(self, pod: Pod) -> bool:
        """Return whether it manages a resource that the pod requests; without managed resources, all pods concern it.

        The API server sets a request for each limit, so limits need no look.
        """
        if not self._managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(not self._managed.isdisjoint(container.resources.requests) for container in containers)

    async def filter(self, pod: Pod, names: Sequence[str]) -> ExtenderFilterResult:
        """Return the names of the nodes that pass, always as `node_names`, and why others do not."""
        result = await self._ask(self.config.filter_verb, self._args(pod, names), _FILTER)
        if result.error:
            raise ExtenderError(result.error)
        passing = result.node_names if self.config.node_cache_capable else None
        if passing is None:
            passing = [] if result.nodes is None else [self._name_of(node) for node in result.nodes.items]
        sent = set(names)
        for name in passing:
            if name not in sent:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return msgspec.structs.replace(result, node_names=list(dict.fromkeys(passing)))

    async def prioritize(self, pod: Pod, names: Sequence[str]) -> dict[str, int]:
        """Return what the extender adds to the scores of nodes, by name; it wraps around as Go's int64 does."""
        priorities = await self._ask(self.config.prioritize_verb, self._args(pod, names), _PRIORITIES)
        scores: dict[str, int] = {}
        for priority in priorities:
            score = priority.score * self.config.weight * _SCALE
            scores[priority.host] = as_int64(scores.get(priority.host, 0) + score)
        return scores

    async def preempt(self, pod: Pod, victims: Mapping[str, ProposedVictims]) -> dict[str, MetaVictims]:
        """Return the nodes on which the extender agrees to preemption, and its victims there."""
        if self.config.node_cache_capable:
            whole, in_uids = None, _in_uids(victims)
        else:
            whole, in_uids = await self._whole(victims), None
        args = {"Pod": _json_of(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": in_uids}
        result = await self._ask(self.config.preempt_verb, args, _PREEMPTION)
        return result.node_name_to_meta_victims

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Let the extender bind a pod. After an error, the pod may be bound all the same."""
        args = {
            "PodName": pod.metadata.name,
            "PodNamespace": pod.metadata.namespace,
            "PodUID": pod_uid(pod),
            "Node": node_name,
        }
        result = await self._ask(self.config.bind_verb, args, _BINDING, is_repeatable=False)
        if result.error:
            raise ExtenderError(result.error)

    async def _ask(
        self, verb: str, args: Mapping[str, Any], answer: "_AnswerDecoder[_R]", *, is_repeatable: bool = True
    ) -> _R:
        try:
            body = await self._posts.post(verb, msgspec.json.encode(args), is_repeatable=is_repeatable)
        except KubeError as error:
            raise ExtenderError(str(error)) from error
        try:
            return answer.decode(body)
        except DecodeError as error:
            raise ExtenderError(f'extender "{self.name}" gave an answer to {verb} that is wrong: {error}') from error

    def _args(self, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        if self.config.node_cache_capable:
            return {"Pod": _json_of(pod), "Nodes": None, "NodeNames": names}
        nodes = {"metadata": {}, "items": [self._node_json(name) for name in names]}
        return {"Pod": _json_of(pod), "Nodes": nodes, "NodeNames": None}

    def _node_json(self, name: str) -> msgspec.Raw:
        node = self._table.node(name)
        if not isinstance(node, NodeWithJson):  # it has gone while another extender was asked
            raise ExtenderError(f'node "{name}" is gone')
        return msgspec.Raw(node.whole_json)

    def _name_of(self, node: msgspec.Raw) -> str:
        try:
            return _node_head.decode(node).metadata.name
        except DecodeError as error:
            raise ExtenderError(f'extender "{self.name}" answered with a node that is wrong: {error}') from error

    async def _whole(self, victims: Mapping[str, ProposedVictims]) -> dict[str, Any]:
        """Return victims as whole pods. The scheduler keeps little of running pods, so they are read."""
        whole: dict[str, Any] = {}
        for name, proposed in victims.items():
            try:
                pods = [msgspec.Raw(await self._pod_json(pod.namespace, pod.name)) for pod in proposed.pods]
            except KubeError as error:
                raise ExtenderError(f'node "{name}": the victims cannot be read: {error}') from error
            whole[name] = {"Pods": pods, "NumPDBViolations": proposed.pdb_violations}
        return whole


class _AnswerDecoder(Generic[_R]):
    """Decodes an answer, with field names in any case.

    One with as many of the names `spelled` as the answer has elements is spelled as in Go.
    """

    def __init__(self, answer_type: Any, spelled: Sequence[bytes] = ()) -> None:
        self._decoder: Decoder[_R] = Decoder(answer_type)
        self._type_info = inspect.type_info(answer_type)
        self._spelled = spelled

    def decode(self, body: bytes) -> _R:
        """Raises DecodeError."""
        if not body:
            raise DecodeError("it is empty")
        try:
            if self._spelled:
                decoded = self._decoder.decode(body)
                if isinstance(decoded, list) and all(body.count(name) == len(decoded) for name in self._spelled):
                    return decoded
            named = with_go_names(msgspec.Raw(body), self._type_info, msgspec.Struct)
            return self._decoder.decode(msgspec.json.encode(named))
        except UnicodeDecodeError as error:
            raise DecodeError("it is not UTF-8") from error
        except RecursionError as error:
            raise DecodeError("it is nested too deeply") from error
        except msgspec.DecodeError as error:
            raise DecodeError(str(error)) from error


_FILTER: Final[_AnswerDecoder[_FilterResult]] = _AnswerDecoder(_FilterResult)
_PRIORITIES: Final[_AnswerDecoder[list[_Priority]]] = _AnswerDecoder(list[_Priority], (b'"Host"', b'"Score"'))
_PREEMPTION: Final[_AnswerDecoder[_PreemptionResult]] = _AnswerDecoder(_PreemptionResult)
_BINDING: Final[_AnswerDecoder[ExtenderBindingResult]] = _AnswerDecoder(ExtenderBindingResult)


def as_int64(number: int) -> int:
    """Return what is left of a number in Go's int64."""
    return (number + 2**63) % 2**64 - 2**63


def _json_of(pod: Pod) -> msgspec.Raw:
    assert isinstance(pod, PendingPod), "extenders are sent whole pods"
    assert pod.whole_json, "extenders are sent whole pods"
    return msgspec.Raw(pod.whole_json)


def _in_uids(victims: Mapping[str, ProposedVictims]) -> dict[str, Any]:
    return {
        name: {"Pods": [{"UID": pod.uid} for pod in proposed.pods], "NumPDBViolations": proposed.pdb_violations}
        for name, proposed in victims.items()
    }

"""Events of watches, from the bytes of the stream to the cluster."""

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from bench import synthetic
from extender_service.cluster.sources.stores import NodeStore, PodStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.resources.api_resources import NODES, WATCHED_PODS, Resource, T
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.watched_pods import WatchedPod
from extender_service.kube.watching.reflector import Reflector
from tests.counted.bytecodes import STILL, executed, finish, typical
from tests.counted.pods import PODS_PER_NODE

_AT_ONCE = 20
_NO_CLIENT = cast(KubeClient, None)

PodEvent = Literal["is created", "is bound", "is bound as expected", "runs", "is deleted"]


def pod_event(which: PodEvent, nodes: int) -> int:
    """Count an event in the life of a pod."""
    return typical(counts[which] for counts in _lives(synthetic.cluster(nodes, PODS_PER_NODE)))


def _lives(cluster: Cluster) -> Iterator[dict[PodEvent, int]]:
    """Yield the count of an event of each kind, while pod after pod comes and goes."""
    reflector = Reflector(_NO_CLIENT, WATCHED_PODS, PodStore(cluster))
    for round_number in itertools.count():
        created = [_pod(round_number * _AT_ONCE + number) for number in range(_AT_ONCE)]
        bound = [_with(pod, "spec", nodeName=f"node-{at:05}") for at, pod in enumerate(created)]
        running = [_with(pod, "status", phase="Running", podIP="10.0.0.1") for pod in bound]
        yield {
            "is created": _applying(reflector, WATCHED_PODS, "ADDED", created),
            "is bound": _applying(reflector, WATCHED_PODS, "MODIFIED", bound),
            "is bound as expected": _bound_as_expected(cluster, reflector),
            "runs": _applying(reflector, WATCHED_PODS, "MODIFIED", running),
            "is deleted": _applying(reflector, WATCHED_PODS, "DELETED", running),
        }


def _bound_as_expected(cluster: Cluster, reflector: Reflector[WatchedPod]) -> int:
    """Count the event that confirms what a call has answered, for pods that come and go for it."""
    created = [_with(_pod(number), "metadata", name=f"web-{number}", uid=f"uid-{number}") for number in range(_AT_ONCE)]
    bound = [_with(pod, "spec", nodeName=f"node-{at:05}") for at, pod in enumerate(created)]
    _applying(reflector, WATCHED_PODS, "ADDED", created)
    for pod, manifest in zip(created, bound, strict=True):
        expected = msgspec.convert(pod, Pod)
        cluster.placements.place(expected, pod_uid(expected), manifest["spec"]["nodeName"])
    count = _applying(reflector, WATCHED_PODS, "MODIFIED", bound)
    _applying(reflector, WATCHED_PODS, "DELETED", bound)
    return count


def heartbeat(nodes: int) -> int:
    """Count a node's saying that it is alive."""
    cluster = synthetic.cluster(nodes, PODS_PER_NODE)
    reflector = Reflector(_NO_CLIENT, NODES, NodeStore(cluster))
    return typical(_applying(reflector, NODES, "MODIFIED", _alive(second)) for second in itertools.count())


def _alive(second: int) -> list[Mapping[str, Any]]:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{second:02}Z"}
    nodes = [cast(Mapping[str, Any], synthetic.node(index, 46)) for index in range(_AT_ONCE)]
    return [
        _with(_with(node, "status", conditions=[condition]), "metadata", resourceVersion=str(10_000 + second))
        for node in nodes
    ]


def _pod(number: int) -> Mapping[str, Any]:
    pod = synthetic.pending_manifest("plain-rs")
    name = f"{pod['metadata']['name']}-{number}"
    return _with(pod, "metadata", name=name, uid=f"uid-{name}", resourceVersion="10000")


def _with(manifest: Mapping[str, Any], part: str, **changes: object) -> Mapping[str, Any]:
    return {**manifest, part: {**manifest[part], **changes}}


def _applying(
    reflector: Reflector[T], resource: Resource[T], event: str, manifests: Sequence[Mapping[str, Any]]
) -> int:
    """Count an event, one of some that come at once."""
    lines = b"".join(msgspec.json.encode({"type": event, "object": manifest}) + b"\n" for manifest in manifests)

    async def chunks() -> AsyncIterator[bytes]:
        yield lines

    async def follow() -> None:
        async for change in EventStream(chunks(), resource.frame_decoder, clock=STILL):
            reflector._take(change)

    return executed(lambda: finish(follow())) // len(manifests)

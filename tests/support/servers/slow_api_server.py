"""An API server whose answers and watch events come when a test says so, and not always as they should."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from extender_service.cluster.sources.stores import NodeStore, PodStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError, UnreachableError
from extender_service.kube.types.core import Node, Pod, PodStatus
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.kube.watching.store import Store

T = TypeVar("T", Node, Pod)

FAULTS: dict[str, KubeError] = {
    "conflict": ApiError(ApiStatus(409, "Conflict", "the object has been modified")),
    "internal error": ApiError(ApiStatus(500, "InternalError", "etcd is tired")),
    "lost": UnreachableError("the connection was lost"),
}


class ApiRequest:
    """A request that waits to be served, which may change something, and then to be answered."""

    def __init__(self, serve: Callable[[], object]) -> None:
        self._serve = serve
        self._answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._outcome: KubeError | None = None
        self._found: object = None
        self.is_served = False

    def serve(self) -> None:
        """Do what was asked; nobody is told yet."""
        if not self.is_served:
            self.is_served = True
            try:
                self._found = self._serve()
            except KubeError as error:
                self._outcome = error

    def answer(self) -> None:
        """Tell what came of it."""
        self.serve()
        if self._outcome is None:
            self._answer.set_result(self._found)
        else:
            self._answer.set_exception(self._outcome)

    def fail(self, error: KubeError) -> None:
        """Answer with an error, whether it was served or not."""
        self._answer.set_exception(error)

    async def answered(self) -> object:
        """Wait for the answer, as who asked."""
        return await self._answer


class Watched(Generic[T]):
    """Objects of one kind by name: as they are, and as the watch has shown them."""

    def __init__(self, store: Store[T], gone: Callable[[T], None]) -> None:
        """`gone` is told of what the watch has shown and then shows no more."""
        self.objects: dict[str, T] = {}
        self.shown: dict[str, T] = {}
        self._store: Store[T] = store
        self._gone: Callable[[T], None] = gone
        self._events: deque[tuple[str, T | None]] = deque()

    def put(self, obj: T) -> None:
        self.objects[obj.metadata.name] = obj
        self._events.append((obj.metadata.name, obj))

    def delete(self, name: str) -> None:
        if self.objects.pop(name, None) is not None:
            self._events.append((name, None))

    def show(self, most: int | None = None) -> None:
        """Let the watch show the next changes in their order, or all of them."""
        for _ in range(len(self._events) if most is None else min(most, len(self._events))):
            self._show(*self._events.popleft())

    def relist(self) -> None:
        """Replace all that has been shown; what the watch had not shown yet is skipped."""
        self._events.clear()
        for name, obj in self.objects.items():
            self._show(name, obj)
        for _, name in list(self._store.keys()):
            if name not in self.objects:
                self._show(name, None)

    def _show(self, name: str, obj: T | None) -> None:
        before = self.shown.pop(name, None)
        if obj is None:
            if before is not None:
                self._store.remove(key_of(before))
        else:
            self.shown[name] = obj
            self._store.apply(obj)
        if before is not None and (obj is None or obj.metadata.uid != before.metadata.uid):
            self._gone(before)


class SlowApiServer:
    """Reads and binds wait in `requests`, events in what is watched."""

    def __init__(self, cluster: Cluster, pod_gone: Callable[[Pod], None]) -> None:
        """`pod_gone` is told of pods that the watch has shown and then shows no more."""
        self.watched_nodes = Watched[Node](NodeStore(cluster), lambda _: None)
        self.watched_pods = Watched[Pod](PodStore(cluster), pod_gone)
        self.ended_pods: dict[str, Pod] = {}
        self.requests: list[ApiRequest] = []
        self.bound: dict[str, str] = {}
        self.bound_by_service: set[str] = set()

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        found = await self.ask(lambda: self.pod(name))
        assert found is None or isinstance(found, Pod)
        return found

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        await self.ask(lambda: self._bind(name, uid, node_name))

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        raise AssertionError("no pod of these tests has a volume")

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        raise AssertionError("no pod of these tests has a volume")

    async def ask(self, serve: Callable[[], object]) -> object:
        """Have something done that takes its time."""
        request = ApiRequest(serve)
        self.requests.append(request)
        try:
            return await request.answered()
        finally:
            self.requests.remove(request)

    def pod(self, name: str) -> Pod | None:
        """A pod as it is, ended or not."""
        return self.watched_pods.objects.get(name) or self.ended_pods.get(name)

    def end(self, name: str) -> None:
        """Let a pod succeed, which hides it from the watch."""
        pod = self.watched_pods.objects.get(name)
        if pod is not None:
            self.ended_pods[name] = msgspec.structs.replace(pod, status=PodStatus(phase="Succeeded"))
            self.watched_pods.delete(name)

    def delete(self, name: str) -> None:
        self.ended_pods.pop(name, None)
        self.watched_pods.delete(name)

    def bind_to(self, pod: Pod, node_name: str) -> None:
        """Write a node into a pod, whoever asked for it."""
        self.bound[pod_uid(pod)] = node_name
        spec = msgspec.structs.replace(pod.spec, node_name=node_name)
        self.watched_pods.put(msgspec.structs.replace(pod, spec=spec))

    def _bind(self, name: str, uid: str, node_name: str) -> None:
        pod = self.pod(name)
        if pod is None:
            raise ApiError(ApiStatus(404, "NotFound", f'pods "{name}" not found'))
        if pod_uid(pod) != uid:
            raise ApiError(ApiStatus(409, "Conflict", "the UID in the precondition is another"))
        if pod.spec.node_name:
            raise ApiError(ApiStatus(409, "Conflict", f"pod {name} is already assigned to node {pod.spec.node_name}"))
        if name in self.ended_pods:
            raise ApiError(ApiStatus(409, "Conflict", f"pod {name} has ended"))
        self.bound_by_service.add(uid)
        self.bind_to(pod, node_name)

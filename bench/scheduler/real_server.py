"""A real API server and etcd. A watcher in this process notes when pods are bound and events written."""

import asyncio
import os
import threading
import time
from asyncio import TaskGroup
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import msgspec

from bench.scheduler.api_servers import BoundPod, Counts, Site
from bench.scheduler.scenes import Scene
from bench.workloads import NAMESPACE
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import WATCHED_PODS, Frame, Resource, T
from extender_service.kube.types.core import ObjectMeta
from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import PROGRAMS, ControlPlane
from tests.e2e.support.waiting import wait_until
from tests.support import go_programs

_CLEAR_SECONDS = 120.0


class _Event(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    reason: str = ""


_EVENTS = Resource("events.k8s.io", "v1", "events", _Event)


class RealApiServer:
    """A running control plane, watched since `version`. `running` names the pods that no scheduler is to bind."""

    def __init__(self, control_plane: ControlPlane, version: str, running: Collection[str]) -> None:
        self._control_plane = control_plane
        self._version = version
        self._running = running
        self.kubeconfig = control_plane.user_kubeconfig("system:kube-scheduler")
        self.api: API = control_plane.api
        self._created_at: dict[str, float] = {}
        self._bound_at: dict[str, float] = {}
        self._counts = Counts()
        self._watch_error: Exception | None = None

    @property
    def processes(self) -> Mapping[str, int]:
        """The process ids of the API server, etcd and this process, which watches."""
        return {
            "API server": self._control_plane.api_server.pid,
            "etcd": self._control_plane.etcd.pid,
            "bench": os.getpid(),
        }

    def create(self, *objects: Object) -> None:
        """Create objects one by one."""
        now = time.time()
        self._created_at |= {each["metadata"]["name"]: now for each in objects if each["kind"] == "Pod"}
        self.api.create(*objects)

    def delete(self, *objects: Object) -> None:
        """Delete objects one by one."""
        self.api.delete(*objects)

    def counts(self) -> Counts:
        """Return what the watcher has seen so far."""
        return self._counts

    def bound_pods(self) -> Sequence[BoundPod]:
        """Return the pods that the watcher has seen bound so far. Raises RuntimeError if it has failed."""
        if self._watch_error is not None:
            raise RuntimeError("the watch of pods and events has failed") from self._watch_error
        bound_at = self._bound_at.copy()  # the watcher goes on in its own thread
        return [BoundPod(self._created_at.get(name, 0.0), at) for name, at in bound_at.items()]

    async def watch(self) -> None:
        """Note bindings and events until cancelled, or until that fails."""
        try:
            async with KubeClient(load_credentials(self._control_plane.kubeconfig)) as client, TaskGroup() as tasks:
                tasks.create_task(self._watch_pods_on_nodes(client))
                tasks.create_task(self._watch_events(client))
        except Exception as error:  # which the thread that asks for the bound pods gets
            self._watch_error = error

    async def _watch_pods_on_nodes(self, client: KubeClient) -> None:
        async for change in _changes(client, WATCHED_PODS, self._version, "spec.nodeName!="):
            self.note_pod(change.object.metadata.name, is_new=change.type == "ADDED")

    async def _watch_events(self, client: KubeClient) -> None:
        async for change in _changes(client, _EVENTS, self._version):
            if change.type == "ADDED":
                self.note_event(change.object.reason)

    def note_pod(self, name: str, *, is_new: bool) -> None:
        """Note that a pod is on a node now if it is new there, or else that a running pod changed or ended."""
        now = time.time()
        if is_new and name not in self._running:
            self._bound_at[name] = now
            self._note(now, bound=len(self._bound_at), last_binding=now)
        else:
            self._note(now)  # the first write may be about a victim

    def note_event(self, reason: str) -> None:
        """Note that an event was written."""
        now = time.time()
        if reason == "Scheduled":
            self._note(now, events=self._counts.events + 1, last_event=now)
        else:
            self._note(now, other_events=self._counts.other_events + 1)

    def _note(self, now: float, **changed: float) -> None:
        first = self._counts.first_write or now
        # One thread writes, another one reads.
        self._counts = msgspec.structs.replace(self._counts, first_write=first, **changed)


async def _changes(
    client: KubeClient, resource: Resource[T], version: str, selector: str = ""
) -> AsyncIterator[Frame[T]]:
    """Yield the changes in a selection after a version. The API server ends the watch of a slow reader."""
    while True:
        async with client.watch(resource, version, field_selector=selector, timeout_seconds=900) as events:
            async for event in events:
                version = event.object.metadata.resource_version
                if event.type != "BOOKMARK":
                    yield event


@contextmanager
def real_site(directory: Path, minor: int, scene: Scene) -> Iterator[Site]:
    """Run a control plane of a release with the cluster of a scene. Its pods are created for each measurement."""
    options = ["--delete-collection-workers=8"]
    with ControlPlane(go_programs.build(PROGRAMS[minor]), directory, api_server_options=options) as control_plane:
        control_plane.api.create(*scene.cluster)
        yield partial(_with_pods, control_plane, scene)


@contextmanager
def _with_pods(control_plane: ControlPlane, scene: Scene) -> Iterator[RealApiServer]:
    api = control_plane.api
    try:
        api.create(*scene.pods)
        with _watched(control_plane, scene) as server:
            yield server
    finally:
        _clear(api)


@contextmanager
def _watched(control_plane: ControlPlane, scene: Scene) -> Iterator[RealApiServer]:
    api = control_plane.api
    pods = api.request("GET", api.path("Pod", NAMESPACE), parameters={"limit": "1"})
    running = {pod["metadata"]["name"] for pod in scene.workload.running}
    server = RealApiServer(control_plane, pods["metadata"]["resourceVersion"], running)
    loop = asyncio.new_event_loop()
    watching = loop.create_task(server.watch())
    thread = threading.Thread(target=_run, args=(loop, watching))
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(watching.cancel)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, watching: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(watching)


def _clear(api: API) -> None:
    """Delete all pods and events."""
    for path in (api.path("Pod", NAMESPACE), f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"):

        def is_empty(path: str = path) -> bool:
            with suppress(APIError, httpx.TransportError):  # it has half a minute for each request
                api.request("DELETE", path, {"gracePeriodSeconds": 0})
            return not api.request("GET", path, parameters={"limit": "1"})["items"]

        wait_until(is_empty, f"no more objects at {path}", _CLEAR_SECONDS)

"""A cluster whose watches reach the service late, with a real kube-scheduler that calls the service."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.support.faulty_proxy import FaultyProxy
from tests.e2e.support.lagging_watches import LaggingWatches
from tests.e2e.support.objects import Object
from tests.e2e.support.programs import preempting_schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.preempting_schedulers import Mode
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

# A pod that is not bound by then stays so until kube-scheduler tries all pods again, after minutes.
_GIVE_UP_SECONDS = 15.0
# kube-scheduler lets a refused pod wait for this long at least, and would only then notice an event at once.
_BACKOFF_SECONDS = 1.2


class Setting(NamedTuple):
    """How the service is called, by how many seconds its watches are late, and whether it has an API server of its own,
    other than that of kube-scheduler."""

    mode: Mode
    lag_seconds: float
    has_own_api_server: bool = False

    def __str__(self) -> str:
        servers = "two API servers" if self.has_own_api_server else "one API server"
        return f"{self.mode}, {self.lag_seconds:g} s late, {servers}"


class LaggingScene:
    """What the rounds do to a cluster, and what becomes of its pods."""

    def __init__(self, control_plane: ControlPlane, service: Service, setting: Setting) -> None:
        self.api = control_plane.api
        self.service = service
        self.setting = setting
        self._numbers = itertools.count(1)

    def new_name(self, what: str) -> str:
        """Return a name that no object of this scene has had."""
        return f"{what}-{next(self._numbers)}"

    def run(self, *objects: Object) -> None:
        """Create nodes, priority classes and pods that run, and wait until the service knows them."""
        self.api.create(*objects)
        self.settle()

    def settle(self) -> None:
        """Wait until the service's watches have shown all that has happened so far."""
        time.sleep(self.setting.lag_seconds + 0.3)

        def knows_all() -> bool:
            kinds = {"nodes": "Node", "pods": "Pod"}
            known = {name: self.service.metric("scheduler_scheduler_cache_size", type=name) for name in kinds}
            bound = [pod for pod in self.api.list_all("Pod") if "nodeName" in pod["spec"]]
            return known == {"nodes": len(self.api.list_all("Node")), "pods": len(bound)}

        wait_until(knows_all, "the service to know the cluster", timeout_seconds=60, every_seconds=0.2)

    def wait_refused(self, name: str) -> None:
        """Wait until kube-scheduler has found no node for a pod, and would try again as soon as it sees a reason."""
        wait_until(lambda: self.pod(name)["status"].get("conditions"), f"{name} to be refused")
        time.sleep(_BACKOFF_SECONDS)

    def seconds_until_bound(self, name: str, since: float, refusals: list[str] | None = None) -> float:
        """Return how long after `since` a pod was bound; infinity if it was not, until it makes no difference.

        What kube-scheduler says meanwhile of why it found no node is added to `refusals`.
        """
        until = since + self.setting.lag_seconds + _GIVE_UP_SECONDS
        while not (pod := self.pod(name))["spec"].get("nodeName"):
            if refusals is not None:
                refusals += [condition.get("message", "") for condition in pod["status"].get("conditions", ())]
            if time.monotonic() > until:
                return float("inf")
            time.sleep(0.02)
        return time.monotonic() - since

    def pod(self, name: str) -> Object:
        return self.api.get("Pod", name, namespace="default")

    def clear(self) -> None:
        """Delete all pods and nodes."""
        self.api.delete(*self.api.list_all("Pod"), *self.api.list_all("Node"))
        self.settle()


@contextmanager
def lagging_scene(control_plane: ControlPlane, directory: Path, setting: Setting) -> Iterator[LaggingScene]:
    """A kube-scheduler, and the service with watches that are late, on a control plane without nodes and pods."""
    url = control_plane.start_another_api_server() if setting.has_own_api_server else control_plane.url
    with (
        FaultyProxy(control_plane, LaggingWatches(setting.lag_seconds), url=url) as proxy,
        preempting_schedulers.running(control_plane, directory, setting.mode, proxy.kubeconfig) as service,
    ):
        yield LaggingScene(control_plane, service, setting)

"""What a plugin may use besides its arguments."""

import asyncio
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.running_preemptions import RunningPreemptions
from extender_service.framework.waiting_pods import WaitingPods
from extender_service.kube.types.core import Pod
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.seams import RANDOM, Clock, Sleep


class Pods(Protocol):
    """Where pods are read and bound: an API server, or a cluster file."""

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none. Raises KubeError if the pod cannot be read."""

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod, with its UID as precondition. Raises KubeError; the pod may be bound nevertheless."""


class Volumes(Protocol):
    """Where volumes and claims are written: an API server, or a cluster file.

    An object is written only if it still has the given resource version. Raises KubeError; the object may be written
    nevertheless.
    """

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write a volume's annotations and claimRef; returns the volume as written."""

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write a claim's annotations; returns the claim as written."""


class API(Pods, Volumes, Protocol):
    """All objects that plugins read or write through the API."""


class Handle:
    """What a plugin may use besides its arguments: the cluster, the API for pods and volumes, the pods that wait, a
    clock, a wait by that clock and a random source; and for the in-tree plugins, the rules of the release that is
    followed, and the pods that preemption makes room for in the background.

    `simulated` is whether a simulation asks: then a plugin must change nothing outside of it.
    """

    def __init__(
        self,
        cluster: Cluster,
        api: API,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Random = RANDOM,
        simulated: bool = False,
    ) -> None:
        self.cluster = cluster
        self.pods: Pods = api
        self.volumes: Volumes = api
        self.waiting_pods = WaitingPods()
        self.preemptions = RunningPreemptions(cluster)
        self.clock = clock
        self.sleep = sleep
        self.simulated = simulated
        self.random = random
        self.rules = cluster.rules
        self._activate: Callable[[Iterable[Pod]], None] | None = None

    def activate(self, pods: Iterable[Pod]) -> None:
        """Have pods tried at once that back off or wait for an event; others stay as they are.

        As an extender, the service has no queue, so this does nothing there. kube-scheduler v1.31.1 has PodsToActivate
        in the CycleState for this, and activates them after the cycle; later releases have the same method.
        """
        if self._activate is not None:
            self._activate(pods)

    def activate_with(self, activate: Callable[[Iterable[Pod]], None]) -> None:
        """Set what activates pods: the scheduler's queue."""
        self._activate = activate

"""Room that `serve` keeps for nominated pods, and their scheduler does not."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.queueing_hints import EXTENDER
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.truth import Judge
from tests.worlds.waits.history import decoded


class KeptRoom:
    """Room that `serve` keeps for a nominated pod that goes elsewhere, or that it has nominated itself.

    kube-scheduler forgets the nomination of a pod once it reserves another node for it, and tells no extender.
    Before v1.35, the API server has the nomination until the pod is bound. So while the pod waits in Permit or PreBind,
    `serve` counts it on the node that it is nominated for, and refuses that room to others. They are tried again when
    the pod is bound, as an extender rejected them.

    kube-scheduler takes a nomination back after an error, and from v1.35 on after each failure. Where `serve` preempts
    by itself, it keeps the room that it makes for a pod nevertheless, until that comes back from backoff.

    That is: an extender rejected a pod. The leader has a place for another one, elsewhere than on the node that the API
    server has it nominated for; or `serve` has nominated another one that waits, and the API server does not have that.
    And the pod that was rejected does not fit there beside the pods that either of both has nominated, and those that
    `serve` has a place for.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._judge: Judge | None = None

    def is_kept(self, leader: SchedulerInsides, info: QueuedPodInfo, node_name: str) -> bool:
        """Return whether `serve` keeps room on a node for another pod, so that this one does not fit."""
        service = None if self._observed.service is None else service_insides(self._observed.service)
        item = self._etcd.get(PODS, info.key)
        if EXTENDER not in info.unschedulable_plugins or service is None or item is None:
            return False
        ahead = [*self._nominated_ahead(service, node_name)]
        if not ahead and not self._is_left(leader, node_name):
            return False
        judge = self._judge_of_now(service)
        with _nominated(judge.cluster, ahead, node_name):
            return node_name not in judge.feasible(item)

    def _is_left(self, leader: SchedulerInsides, node_name: str) -> bool:
        """Return whether a pod is nominated for a node, and is being bound to another one."""
        for placement in leader.cluster.placements:
            item = self._etcd.get(PODS, pod_name(placement.pod))
            if item is None or item.value["metadata"]["uid"] != placement.uid:
                continue
            if item.value["status"].get("nominatedNodeName") == node_name != placement.node_name:
                return True
        return False

    def _nominated_ahead(self, service: ServiceInsides, node_name: str) -> Iterator[Pod]:
        """Yield the pods that wait, and that `serve` has nominated for a node, but not the API server."""
        for nomination in service.cluster.nominations.on_node(node_name):
            known = service.cluster.pod(nomination.uid)
            item = None if known is None else self._etcd.get(PODS, f"{known.namespace}/{known.name}")
            if item is None or item.value["metadata"]["uid"] != nomination.uid or is_finished(item.value):
                continue
            pod = decoded(item)
            if not pod.spec.node_name and pod.status.nominated_node_name != node_name:
                yield pod

    def _judge_of_now(self, service: ServiceInsides) -> Judge:
        """Return the judge, with what is stored now, its nominations, and the places that `serve` has for pods."""
        if self._judge is None:
            self._judge = Judge(self._etcd, self._observed.rules)
            self._judge.follow()
        self._judge.refresh()
        self._judge.place({placement.uid: placement for placement in service.cluster.placements})
        return self._judge


@contextmanager
def _nominated(cluster: Cluster, pods: Collection[Pod], node_name: str) -> Iterator[None]:
    """Let pods be nominated for a node until the context ends."""
    nominations = cluster.nominations
    for pod in pods:
        slot = cluster.pending_slot(pod_uid(pod))
        assert slot is not None, "the cluster is what is stored"
        nominations.nominate_ahead(pod, pod_uid(pod), slot, node_name)
    yield
    for pod in pods:
        nominations.withdraw(pod_uid(pod), pod.status.nominated_node_name)

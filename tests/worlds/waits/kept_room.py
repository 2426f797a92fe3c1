"""Room that `serve` keeps for nominated pods that go elsewhere."""

from extender_service.framework.queueing_hints import EXTENDER
from extender_service.kube.types.core import pod_name
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.truth import Judge


class KeptRoom:
    """kube-scheduler forgets the nomination of a pod once it reserves another node for it, and tells no extender.
    Before v1.35, the API server has the nomination until the pod is bound. So while the pod waits in Permit or PreBind,
    `serve` counts it on the node that it is nominated for, and refuses that room to others. They are tried again when
    the pod is bound, as an extender rejected them.

    That is: an extender rejected a pod; the leader has a place for another one, elsewhere than on the node that the API
    server has it nominated for; and the pod that waits does not fit there beside the pods that the API server has
    nominated, and those that `serve` has a place for.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._judge: Judge | None = None

    def is_kept(self, leader: SchedulerInsides, info: QueuedPodInfo, node_name: str) -> bool:
        """Return whether `serve` keeps room on a node for a pod that goes elsewhere, so that this one does not fit."""
        if EXTENDER not in info.unschedulable_plugins or not self._is_left(leader, node_name):
            return False
        service = None if self._observed.service is None else service_insides(self._observed.service)
        item = self._etcd.get(PODS, info.key)
        return service is not None and item is not None and node_name not in self._judge_of_now(service).feasible(item)

    def _is_left(self, leader: SchedulerInsides, node_name: str) -> bool:
        """Return whether a pod is nominated for a node, and is being bound to another one."""
        for placement in leader.cluster.placements:
            item = self._etcd.get(PODS, pod_name(placement.pod))
            if item is None or item.value["metadata"]["uid"] != placement.uid:
                continue
            if item.value["status"].get("nominatedNodeName") == node_name != placement.node_name:
                return True
        return False

    def _judge_of_now(self, service: ServiceInsides) -> Judge:
        """Return the judge, with what is stored now, its nominations, and the places that `serve` has for pods."""
        if self._judge is None:
            self._judge = Judge(self._etcd, self._observed.rules)
            self._judge.follow()
        self._judge.refresh()
        self._judge.place({placement.uid: placement for placement in service.cluster.placements})
        return self._judge

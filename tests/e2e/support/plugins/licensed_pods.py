"""A user's plugin that knows objects of a custom kind from its hint alone."""

from typing import Any

import numpy as np

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter
from extender_service.framework.status import Rejections, unschedulable
from extender_service.kube.types.core import Pod


class LicensedPods(Filter):
    """Rejects pods with the label `license`, until a License of this name has seats."""

    name = "LicensedPods"
    retry_on = (ClusterEvent("licenses.v1.example.com", ActionType.ALL),)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._seats: dict[str, int] = {}

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if new is None:
            self._seats.pop(old["metadata"]["name"], None)
            return QueueingHint.SKIP
        name = new["metadata"]["name"]
        self._seats[name] = new["spec"]["seats"]
        return QueueingHint.queue_if(pod.metadata.labels["license"] == name and self._seats[name] > 0)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        wanted = pod.metadata.labels.get("license")
        if wanted is None or self._seats.get(wanted, 0) > 0:
            return None
        return Rejections.where(np.ones(len(nodes), np.bool_), unschedulable(f"no license {wanted}"))

"""Plugins that take longer than anybody waits."""

import time

from extender_service.cluster.state.node_info import NodeInfo
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.per_node import FilterNode
from extender_service.framework.status import Status
from extender_service.kube.types.core import Pod


class Stubborn(FilterNode):
    """Takes a tenth of a second for each node, for pods named `slow`, and all the time for those named `endless`."""

    name = "Stubborn"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.metadata.name == "slow":
            time.sleep(0.1)
        while pod.metadata.name == "endless":
            time.sleep(0.1)
        return None

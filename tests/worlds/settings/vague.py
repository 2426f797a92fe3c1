"""A user's plugin of `serve` that refuses nodes for a good reason, and cannot always say which.

Name it with `--plugin tests.worlds.settings.vague:Vague`, and enable it before the other plugins that filter.
"""

from typing import Final

import numpy as np

from extender_service.cluster.amounts.dimensions import UNOFFERED
from extender_service.cluster.amounts.requests import pod_requests
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, Reach
from extender_service.framework.status import Rejections, Status, unschedulable
from extender_service.kube.types.core import Pod
from tests.worlds.settings.plugin_moods import BAD_MOOD, moods_here

_CPU: Final = "cpu"
_IS_VAGUE: Final = 0.2


class Vague(Filter):
    """Refuses nodes without cpu for a pod, as NodeResourcesFit does behind it: so no pod waits because of it alone."""

    name = "Vague"
    treats_alike = True
    reach = Reach.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._moods, program = moods_here()
        self._random = self._moods.random(f"moods of {program} about reasons")

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        wanted, dimension = dict(pod_requests(state.request_shape).amounts).get(_CPU, 0), nodes.dimension(_CPU)
        if wanted <= 0 or dimension == UNOFFERED:
            return None
        lacking = nodes.left_of((dimension,))[0] < wanted
        if not lacking.any():
            return None
        is_vague = not self._moods.are_over and self._random.random() < _IS_VAGUE

        def status_of(_: int) -> Status:
            if is_vague:
                raise RuntimeError(BAD_MOOD)
            return unschedulable("Insufficient cpu")

        return Rejections(lacking.astype(np.int64), status_of)

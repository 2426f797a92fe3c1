"""DynamicResources: where a pod's resource claims can be allocated.

Claims are not judged yet: a pod with claims is refused before any plugin runs (scheduling/unsupported.py), or left to
kube-scheduler's own plugins. For all other pods, this plugin is in each decision what kube-scheduler's is.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, FilterAgain, PostFilter, PostFilterResult, PreFilter, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code, Rejections, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod

_STATE = "DynamicResources"
_NO_STATE = "not found"
_NOTHING_TO_TAKE_BACK = unschedulable("no new claims to deallocate")


class DynamicResources(PreFilter, Filter, PostFilter, Score):
    """Has nothing to say about pods without resource claims. Where PreFilter did not reach it, PostFilter fails."""

    name: ClassVar[str] = "DynamicResources"
    treats_alike: ClassVar[bool] = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._no_room = unschedulable() if handle.rules.deallocation_unmentioned else _NOTHING_TO_TAKE_BACK

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points in a release: none before the plugin came, and Score later than the others."""
        if not rules.dynamic_resources:
            return set()
        points = {"preFilter", "filter", "postFilter"}
        return points | {"score"} if rules.scored_dynamic_resources else points

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Skip Filter for a pod without claims."""
        state[_STATE] = True
        return None if pod.spec.resource_claims else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject no node."""
        if _STATE not in state:
            raise PluginError(_NO_STATE)
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        """Take back no allocation: the pod has none."""
        if _STATE not in state:
            return PostFilterResult(Status(Code.ERROR, (_NO_STATE,)))
        return PostFilterResult(self._no_room)

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Give every node the same."""
        if _STATE not in state:
            raise PluginError(_NO_STATE)
        return np.zeros(len(nodes), np.int64)

"""DynamicResources: where a pod's resource claims can be allocated.

Claims are not judged yet: a pod with claims is refused before any plugin runs (scheduling/unsupported.py), or left to
kube-scheduler's own plugins. For all other pods, this plugin is in each decision what kube-scheduler's is.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.args import PluginArgs
from extender_service.config.durations import Duration, DurationText
from extender_service.config.model import OmitMissing
from extender_service.config.problems import Problem, forbidden, invalid
from extender_service.config.rules import Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    Filter,
    FilterAgain,
    PostFilter,
    PostFilterResult,
    PreBind,
    PreEnqueue,
    PreFilter,
    Reach,
    Reserve,
    Score,
    extension_points,
)
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code, Rejections, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod

_STATE = "DynamicResources"
_NO_STATE = "not found"
_NOTHING_TO_TAKE_BACK = unschedulable("no new claims to deallocate")
_OFF = unschedulable("plugin disabled")
_FILTER_TIMEOUT = Duration.parse("10s")
_BINDING_TIMEOUT = Duration.parse("10m")
_SECOND = Duration.parse("1s")


class DynamicResourcesArgs(PluginArgs):
    """How long kube-scheduler's plugin may look for devices on a node, and wait for devices to be ready; read and
    checked, but without effect here."""

    kind: Literal["DynamicResourcesArgs"] = "DynamicResourcesArgs"
    filter_timeout: Annotated[DurationText | None, OmitMissing] = None
    binding_timeout: Annotated[DurationText | None, OmitMissing] = None

    @classmethod
    def are_in(cls, rules: Rules) -> bool:
        """Return whether a release has these arguments."""
        return rules.has_dynamic_resources

    def with_defaults(self, rules: Rules) -> Self:
        """Allow Filter 10 s and PreBind 10 minutes, where their gates are on (SetDefaults_DynamicResourcesArgs)."""
        defaults: dict[str, Duration] = {}
        if self.filter_timeout is None and rules.filter_timeout:
            defaults["filter_timeout"] = _FILTER_TIMEOUT
        if self.binding_timeout is None and _waits_for_devices(rules):
            defaults["binding_timeout"] = _BINDING_TIMEOUT
        return self.model_copy(update=defaults)

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that each has its gates and is not too short (ValidateDynamicResourcesArgs)."""
        if self.filter_timeout is not None:
            here = f"{path}.filterTimeout"
            if not rules.filter_timeout:
                yield forbidden(here, "DRASchedulingFilterTimeout feature gate is disabled")
            elif self.filter_timeout < 0:
                yield invalid(here, str(self.filter_timeout), "must be zero or positive")
        if self.binding_timeout is not None:
            here = f"{path}.bindingTimeout"
            if not rules.has_binding_timeout:
                yield Problem(here, f"unknown field: {rules.release} does not have it")
            elif not _waits_for_devices(rules):
                detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
                yield forbidden(here, detail)
            elif self.binding_timeout < _SECOND:
                yield invalid(here, str(self.binding_timeout), "must be at least 1 second")


def _waits_for_devices(rules: Rules) -> bool:
    return rules.device_binding_conditions and rules.device_status_of_claims


class DynamicResources(PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind):
    """Has nothing to say about pods without resource claims, and about none while its gate is off. Where its PreFilter
    did not run, it fails at each later extension point except Unreserve."""

    name: ClassVar[str] = "DynamicResources"
    retry_on = ()  # it rejects no pod
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NONE
    args_type: ClassVar[type | None] = DynamicResourcesArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._is_on = handle.rules.dynamic_resources
        self._no_room = unschedulable() if handle.rules.deallocation_unmentioned else _NOTHING_TO_TAKE_BACK

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points in a release: none before 1.34, and Score later than the others."""
        if not rules.has_dynamic_resources:
            return set()
        points = extension_points(cls)
        return points if rules.scored_dynamic_resources else points - {"score"}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep no pod out of the queue."""
        return None

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Skip Filter for a pod without claims."""
        state[_STATE] = True
        return None if pod.spec.resource_claims and self._is_on else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject no node."""
        self._require_state(state)
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        """Take back no allocation: the pod has none."""
        if not self._is_on:
            return PostFilterResult(_OFF)
        if _STATE not in state:
            return PostFilterResult(Status(Code.ERROR, (_NO_STATE,)))
        return PostFilterResult(self._no_room)

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Give every node the same."""
        self._require_state(state)
        return np.zeros(len(nodes), np.int64)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve no devices."""
        self._require_state(state)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give nothing back."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip PreBind."""
        self._require_state(state)
        return SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write nothing."""
        self._require_state(state)
        return None

    def _require_state(self, state: CycleState) -> None:
        if self._is_on and _STATE not in state:
            raise PluginError(_NO_STATE)

"""The arguments of VolumeBinding."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from extender_service.config.args import PluginArgs
from extender_service.config.model import Int64Field, Many, OmitEmpty
from extender_service.config.problems import Problem, invalid
from extender_service.config.rules import Rules
from extender_service.plugins.shared.shape import MAX_SHAPE_SCORE, UtilizationShapePoint, check_shape

_FULLEST_FIRST = (
    UtilizationShapePoint(utilization=0, score=0),
    UtilizationShapePoint(utilization=100, score=MAX_SHAPE_SCORE),
)
_EMPTIEST_FIRST = (
    UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=100, score=0),
)


class VolumeBindingArgs(PluginArgs):
    """How long volumes may take to bind, and how their utilization is scored.

    That needs the feature gate StorageCapacityScoring, or in releases before it, VolumeCapacityPriority.
    """

    kind: Literal["VolumeBindingArgs"] = "VolumeBindingArgs"
    bind_timeout_seconds: Int64Field = 600
    shape: Annotated[Many[UtilizationShapePoint], OmitEmpty] = ()

    def with_defaults(self, rules: Rules) -> Self:
        """Prefer full volumes, later empty ones, if no shape is given (SetDefaults_VolumeBindingArgs)."""
        if self.shape or not (rules.scores_volume_capacity or rules.scores_storage_capacity):
            return self
        return self.model_copy(update={"shape": _EMPTIEST_FIRST if rules.scores_storage_capacity else _FULLEST_FIRST})

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check the shape, too; without its gate even an empty one is an error (ValidateVolumeBindingArgs)."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        if rules.scores_volume_capacity or rules.scores_storage_capacity:
            yield from check_shape(self.shape, f"{path}.shape", rules)
        elif "shape" in self.model_fields_set:
            gate = "StorageCapacityScoring" if rules.has_storage_capacity_scoring else "VolumeCapacityPriority"
            detail = f"unexpected field `shape`, remove it or turn on the feature gate {gate}"
            yield invalid(f"{path}.shape", [point.model_dump() for point in self.shape], detail)

from extender_service.config.release import FEATURE_GATES, FeatureGates
from extender_service.plugins.shared.shape import UtilizationShapePoint
from extender_service.plugins.volume_binding.args import VolumeBindingArgs

GATE = FeatureGates(volume_capacity_priority=True)
FULL_IS_BEST = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))
EMPTY_IS_BEST = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))


def paths(args: VolumeBindingArgs, gates: FeatureGates) -> list[str]:
    return [problem.path for problem in args.check("args", gates)]


def test_with_the_feature_gate_full_volumes_are_best_by_default() -> None:
    assert VolumeBindingArgs().with_defaults(GATE).shape == FULL_IS_BEST
    assert VolumeBindingArgs(shape=EMPTY_IS_BEST).with_defaults(GATE).shape == EMPTY_IS_BEST
    assert VolumeBindingArgs().with_defaults(FEATURE_GATES).shape == ()


def test_a_shape_needs_the_feature_gate() -> None:
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST), FEATURE_GATES) == ["args.shape"]
    assert paths(VolumeBindingArgs(shape=()), FEATURE_GATES) == ["args.shape"]
    assert paths(VolumeBindingArgs(), FEATURE_GATES) == []
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST), GATE) == []
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST[::-1]), GATE) == ["args.shape[1].utilization"]


def test_the_time_to_bind_is_not_negative() -> None:
    assert paths(VolumeBindingArgs(bind_timeout_seconds=-1), FEATURE_GATES) == ["args.bindTimeoutSeconds"]
    assert paths(VolumeBindingArgs(bind_timeout_seconds=0), FEATURE_GATES) == []

from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.plugins.shared.shape import UtilizationShapePoint
from extender_service.plugins.volume_binding.args import VolumeBindingArgs

GATE = rules_of(31, {"VolumeCapacityPriority": True})
FULL_IS_BEST = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))
EMPTY_IS_BEST = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))


def paths(args: VolumeBindingArgs, rules: Rules) -> list[str]:
    return [problem.path for problem in args.check("args", rules)]


def test_with_the_feature_gate_full_volumes_are_best_by_default() -> None:
    assert VolumeBindingArgs().with_defaults(GATE).shape == FULL_IS_BEST
    assert VolumeBindingArgs(shape=EMPTY_IS_BEST).with_defaults(GATE).shape == EMPTY_IS_BEST
    assert VolumeBindingArgs().with_defaults(DEFAULT_RULES).shape == ()


def test_a_shape_needs_the_feature_gate() -> None:
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST), DEFAULT_RULES) == ["args.shape"]
    assert paths(VolumeBindingArgs(shape=()), DEFAULT_RULES) == ["args.shape"]
    assert paths(VolumeBindingArgs(), DEFAULT_RULES) == []
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST), GATE) == []
    assert paths(VolumeBindingArgs(shape=EMPTY_IS_BEST[::-1]), GATE) == ["args.shape[1].utilization"]


def test_the_time_to_bind_is_not_negative() -> None:
    assert paths(VolumeBindingArgs(bind_timeout_seconds=-1), DEFAULT_RULES) == ["args.bindTimeoutSeconds"]
    assert paths(VolumeBindingArgs(bind_timeout_seconds=0), DEFAULT_RULES) == []

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


def test_from_1_37_on_empty_volumes_are_best_by_default_and_a_shape_needs_no_gate() -> None:
    assert VolumeBindingArgs().with_defaults(rules_of(37)).shape == EMPTY_IS_BEST
    assert VolumeBindingArgs(shape=FULL_IS_BEST).with_defaults(rules_of(37)).shape == FULL_IS_BEST
    assert paths(VolumeBindingArgs(shape=FULL_IS_BEST), rules_of(37)) == []


def test_without_the_gate_the_refusal_names_the_gate_of_the_release() -> None:
    for minor, gate in (32, "VolumeCapacityPriority"), (33, "StorageCapacityScoring"):
        [problem] = VolumeBindingArgs(shape=FULL_IS_BEST).check("args", rules_of(minor))
        assert problem.message.endswith(f"turn on the feature gate {gate}")

import pytest

from extender_service.config.loading import default_config
from extender_service.config.rules import rules_of
from extender_service.plugins.in_tree import ARGS_TYPES
from extender_service.plugins.node_resources.args import DEFAULT_RESOURCES, NodeResourcesFitArgs, ScoringStrategy

HERE = "args.scoringStrategy"
MISSING = "Required value: must be specified when type is RequestedToCapacityRatio"
RATIO = {"shape": [{"utilization": 0, "score": 10}]}


def test_fit_scores_by_least_allocated_by_default() -> None:
    [profile] = default_config(ARGS_TYPES).profiles
    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert strategy.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in strategy.resources] == [("cpu", 1), ("memory", 1)]


def test_strategy_without_resources_scores_cpu_and_memory() -> None:
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated", resources=()))
    assert args.scoring_strategy.resources == DEFAULT_RESOURCES


@pytest.mark.parametrize(
    ("minor", "strategy", "said"),
    [
        (35, {"type": "LeastAllocated", "requestedToCapacityRatio": RATIO}, []),
        (36, {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": RATIO}, []),
        (
            36,
            {"type": "LeastAllocated", "requestedToCapacityRatio": RATIO},
            [f"{HERE}.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
        ),
        (
            36,
            {"type": "RequestedToCapacityRatio"},
            [f"{HERE}.requestedToCapacityRatio: {MISSING}"],
        ),
        (
            35,
            {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}},
            [f"{HERE}.shape: Required value: at least one point must be specified"],
        ),
        (
            36,
            {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}},
            [f"{HERE}.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
        ),
    ],
)
def test_only_its_own_strategy_has_a_shape_from_1_36_on(
    minor: int, strategy: dict[str, object], said: list[str]
) -> None:
    args = NodeResourcesFitArgs.model_validate({"scoringStrategy": strategy}, by_name=False)
    assert [str(problem) for problem in args.check("args", rules_of(minor))] == said

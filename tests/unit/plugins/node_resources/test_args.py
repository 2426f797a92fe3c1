from extender_service.config.loading import default_config
from extender_service.plugins.in_tree import ARGS_TYPES
from extender_service.plugins.node_resources.args import DEFAULT_RESOURCES, NodeResourcesFitArgs, ScoringStrategy


def test_fit_scores_by_least_allocated_by_default() -> None:
    [profile] = default_config(ARGS_TYPES).profiles
    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert strategy.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in strategy.resources] == [("cpu", 1), ("memory", 1)]


def test_strategy_without_resources_scores_cpu_and_memory() -> None:
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated", resources=()))
    assert args.scoring_strategy.resources == DEFAULT_RESOURCES

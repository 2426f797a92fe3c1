import pytest
from pydantic import ValidationError

from extender_service.config.loading import default_config, parse_config
from extender_service.config.plugin_args import (
    DEFAULT_RESOURCES,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from extender_service.kube.types import core as objects

AFFINITY = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 3, preference: {matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}}
"""


def test_added_affinity_is_the_type_that_pods_have() -> None:
    [profile] = parse_config(AFFINITY).profiles
    term = objects.NodeSelectorTerm(match_expressions=(objects.SelectorRequirement("disk", "In", ("ssd",)),))
    preference = objects.NodeSelectorTerm(match_fields=(objects.SelectorRequirement("metadata.name", "NotIn", ("a",)),))
    expected = objects.NodeAffinity(
        required=objects.NodeSelector((term,)), preferred=(objects.PreferredSchedulingTerm(3, preference),)
    )
    assert profile.args("NodeAffinity") == NodeAffinityArgs(added_affinity=expected)


def test_fit_scores_by_least_allocated_unless_told() -> None:
    [profile] = default_config().profiles
    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert strategy.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in strategy.resources] == [("cpu", 1), ("memory", 1)]


def test_strategy_without_resources_scores_cpu_and_memory() -> None:
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated", resources=()))
    assert args.scoring_strategy.resources == DEFAULT_RESOURCES


def test_arguments_are_immutable() -> None:
    args = NodeResourcesFitArgs()
    with pytest.raises(ValidationError, match="frozen"):
        args.ignored_resources = ("example.com/gpu",)

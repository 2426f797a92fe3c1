import pytest

from extender_service.config.problems import Problem
from extender_service.config.rules import DEFAULT_RULES
from extender_service.plugins.inter_pod_affinity.args import InterPodAffinityArgs


@pytest.mark.parametrize(("weight", "is_valid"), [(-1, False), (0, True), (100, True), (101, False)])
def test_the_weight_is_that_of_a_score(weight: int, is_valid: bool) -> None:
    problems = list(InterPodAffinityArgs(hard_pod_affinity_weight=weight).check("args", DEFAULT_RULES))
    problem = Problem("args.hardPodAffinityWeight", f"Invalid value: {weight}: not in valid range [0, 100]")
    assert problems == ([] if is_valid else [problem])

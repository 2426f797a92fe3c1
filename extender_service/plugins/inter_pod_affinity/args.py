"""The arguments of InterPodAffinity."""

from collections.abc import Iterator
from typing import Literal

from extender_service.config.args import PluginArgs
from extender_service.config.model import Int32Field
from extender_service.config.problems import Problem, out_of_range
from extender_service.config.rules import Rules


class InterPodAffinityArgs(PluginArgs):
    """What InterPodAffinity's score makes of the affinity of pods that run already."""

    kind: Literal["InterPodAffinityArgs"] = "InterPodAffinityArgs"
    hard_pod_affinity_weight: Int32Field = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that the weight is that of a score (ValidateInterPodAffinityArgs)."""
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield out_of_range(f"{path}.hardPodAffinityWeight", self.hard_pod_affinity_weight, "[0, 100]")

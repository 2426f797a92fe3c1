"""The arguments of PodTopologySpread."""

from collections.abc import Iterator
from typing import Annotated, Literal

from extender_service.config.args import PluginArgs
from extender_service.config.model import Many, OmitEmpty, zero_means
from extender_service.config.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    invalid_label_key,
    not_supported,
    out_of_range,
    required,
)
from extender_service.config.rules import Rules
from extender_service.config.strict_objects import StrictObject
from extender_service.kube.types.core import TopologySpreadConstraint
from extender_service.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY

SYSTEM_DEFAULTS = "System"
LISTED_DEFAULTS = "List"
_DEFAULTING_TYPES = (SYSTEM_DEFAULTS, LISTED_DEFAULTS)
_ACTIONS = (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)


class PodTopologySpreadArgs(PluginArgs):
    """Constraints for pods that have none: the system's (defaultingType System) or those listed (List)."""

    kind: Literal["PodTopologySpreadArgs"] = "PodTopologySpreadArgs"
    default_constraints: Annotated[Many[StrictObject[TopologySpreadConstraint]], OmitEmpty] = ()
    defaulting_type: Annotated[str, zero_means(SYSTEM_DEFAULTS)] = SYSTEM_DEFAULTS

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that constraints are as a pod's, but without a selector (ValidatePodTopologySpreadArgs)."""
        type_path = f"{path}.defaultingType"
        if self.defaulting_type not in _DEFAULTING_TYPES:
            yield not_supported(type_path, self.defaulting_type, _DEFAULTING_TYPES)
        elif self.defaulting_type == SYSTEM_DEFAULTS and self.default_constraints:
            yield invalid(type_path, self.defaulting_type, "when .defaultConstraints are not empty")
        seen: set[tuple[str, str]] = set()
        for index, constraint in enumerate(self.default_constraints):
            here = f"{path}.defaultConstraints[{index}]"
            yield from _check_constraint(constraint, here, rules)
            kind = (constraint.topology_key, constraint.when_unsatisfiable)
            if kind in seen:
                yield duplicate(here, f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}")
            seen.add(kind)


def _check_constraint(constraint: TopologySpreadConstraint, path: str, rules: Rules) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield out_of_range(f"{path}.maxSkew", constraint.max_skew, "(0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from invalid_label_key(f"{path}.topologyKey", constraint.topology_key, rules.wording)
    if not constraint.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif constraint.when_unsatisfiable not in _ACTIONS:
        yield not_supported(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", detail)

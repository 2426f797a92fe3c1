"""--feature-gates: how its values are read, and what they say together for a release.

The order in which AllAlpha, AllBeta and single gates apply is featuregate.go's.
"""

from collections.abc import Mapping
from typing import NamedTuple

from extender_service.config.gate_dependencies import unmet_dependencies
from extender_service.config.known_gates import KnownGate, known_gates, minors_with
from extender_service.config.release import version_of
from extender_service.config.rules import followed_gates

_STAGES = {"AllAlpha": "Alpha", "AllBeta": "Beta"}

# Gates that kube-scheduler reads in releases in which no rule depends on them, and the value that this program decides
# by in those (docs/compatibility.md).
_DECIDED_BY: Mapping[str, bool] = {
    "CSIMigrationPortworx": True,
    "DRAExtendedResource": False,
    "DRANodeAllocatableResources": False,
    "InPlacePodVerticalScaling": False,
    "MatchLabelKeysInPodTopologySpread": True,
    "NodeInclusionPolicyInPodTopologySpread": True,
    "NominatedNodeNameForExpectation": False,
    "SidecarContainers": True,
    "WorkloadAwarePreemption": False,
}


class GateSettings(NamedTuple):
    """What --feature-gates asks for: the value of every gate of the release.

    Of the gates that differ from their default although no rule depends on them, `not_followed` are those by which
    kube-scheduler decides, and `without_effect` the others that were set by name. `to_be_removed` are those set by name
    that a later release will not know.
    """

    values: Mapping[str, bool]
    without_effect: tuple[str, ...]
    not_followed: tuple[str, ...]
    to_be_removed: tuple[str, ...]


def parse_gates(text: str) -> dict[str, bool]:
    """Parse one value of --feature-gates, such as A=true,kube:B=false. Raises ValueError, which names the gate."""
    settings: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        component, colon, of_component = name.strip().partition(":")
        name = of_component if colon else component
        if colon and component != "kube":
            raise ValueError(f"component {component!r} is not known: write kube:{name}, or {name}")
        if not equals:
            raise ValueError(f"missing bool value for {name}: write {name}=true or {name}=false")
        try:
            settings[name] = parse_bool(value.strip())
        except ValueError as error:
            raise ValueError(f"invalid value of {name}: {error}") from None
    return settings


def resolve_gates(settings: Mapping[str, bool], minor: int) -> GateSettings:
    """Return what the settings of single gates, AllAlpha and AllBeta say together for the release 1.`minor`.

    Raises ValueError for a gate that kube-scheduler of this release does not know or has locked to the other value, and
    for gates that are on, if only by default, without those that they depend on.
    """
    known = known_gates(minor)
    for name, is_on in settings.items():
        _check(name, is_on, known, minor)
    wanted = {name: gate.default for name, gate in known.items()}
    for all_of, stage in _STAGES.items():
        if all_of in settings:
            wanted |= {name: settings[all_of] for name, gate in known.items() if gate.stage == stage}
    single = {name: is_on for name, is_on in settings.items() if name in known}
    wanted |= single
    unmet = list(unmet_dependencies(wanted, minor))
    if unmet:
        raise ValueError("; ".join(unmet))
    followed = followed_gates(minor)
    changed = [name for name, gate in known.items() if name not in followed and wanted[name] != gate.default]
    not_followed = tuple(name for name in changed if wanted[name] != _DECIDED_BY.get(name, wanted[name]))
    without_effect = tuple(name for name in single if name in changed and name not in not_followed)
    to_be_removed = tuple(name for name in single if known[name].stage in ("GA", "Deprecated"))
    return GateSettings(wanted, without_effect, not_followed, to_be_removed)


def _check(name: str, is_on: bool, known: Mapping[str, KnownGate], minor: int) -> None:  # noqa: FBT001 - its value
    if name in _STAGES:
        return
    gate = known.get(name)
    if gate is None:
        others = [version_of(each) for each in minors_with(name)]
        where = f" in {version_of(minor)}; {', '.join(others)} have it" if others else ""
        raise ValueError(f"unrecognized feature gate: {name}{where}")
    if gate.is_locked and is_on != gate.default:
        given, default = str(is_on).lower(), str(gate.default).lower()
        raise ValueError(f"cannot set feature gate {name} to {given}, feature is locked to {default}")


def parse_bool(text: str) -> bool:
    """Read a truth value as Go's strconv.ParseBool does. Raises ValueError."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")

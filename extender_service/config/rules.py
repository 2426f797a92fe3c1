"""The one table of what differs between releases of Kubernetes: each rule, and what brings it.

A rule is named by what it does. It is false where v1.31.1 behaves, and true where a later release does. The cluster's
state and the plugins get the rules when they are made. They ask for a rule by its name, and never compare versions. To
add a rule, add a line here, and ask for it where it applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from extender_service.config.known_gates import was_last_on
from extender_service.config.release import DEFAULT_MINOR, version_of

_SINCE = "since"
_GATES = "gates"


def _since(minor: int) -> Any:
    """Return a rule that holds from a release on."""
    return field(metadata={_SINCE: minor, _GATES: ()})


def _behind(*gates: str, since: int = 0) -> Any:
    """Return a rule that holds while one of some feature gates is on: a gate may have changed its name."""
    return field(metadata={_SINCE: since, _GATES: gates})


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of one release, with the feature gates as set. `release`, such as 1.34, is there to be shown."""

    release: str

    # Configuration and the framework.
    # A change wakes a rejected pod only if a plugin that rejected it says that this change can help (KEP-4247).
    queueing_hints: bool = _behind("SchedulerQueueingHints")

    # VolumeBinding.
    # Scores by the capacity of the volumes to bind, by the shape in its arguments (KEP-1845).
    scores_volume_capacity: bool = _behind("VolumeCapacityPriority")


def rules_of(minor: int, gates: Mapping[str, bool] | None = None) -> Rules:
    """Return the rules of the release 1.`minor`, with the feature gates that are set; others have their default."""
    settings = gates or {}

    def is_on(gate: str) -> bool:
        return settings[gate] if gate in settings else was_last_on(gate, minor)

    def holds(metadata: Mapping[str, Any]) -> bool:
        return minor >= metadata[_SINCE] and (not metadata[_GATES] or any(map(is_on, metadata[_GATES])))

    held = {each.name: holds(each.metadata) for each in fields(Rules) if each.metadata}
    return Rules(release=version_of(minor), **held)


DEFAULT_RULES = rules_of(DEFAULT_MINOR)

FOLLOWED_GATES = frozenset(name for each in fields(Rules) for name in each.metadata.get(_GATES, ()))
"""The feature gates on which any rule depends."""

"""Versions of what is stored, and when programs know them by their watches."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Change, Etcd
from tests.worlds.api_server.kinds import BY_PATH, PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides

# After etcd was restored, versions say nothing until everything was listed again.
RESTORED_SECONDS: Final = 60.0


class LatestVersions:
    """The latest version of each kind that the watches of programs can show: pods that have ended are not among it."""

    def __init__(self, etcd: Etcd) -> None:
        self._latest: dict[Kind, int] = {}
        etcd.listeners.append(self._note)
        etcd.on_restore.append(self._latest.clear)

    def now(self) -> dict[Kind, int]:
        """Return the versions as they are now; none of a kind that has not changed since etcd was restored."""
        return dict(self._latest)

    def _note(self, kind: Kind, change: Change) -> None:
        versions = (change.before, change.after)
        if kind is not PODS or any(item is not None and not is_finished(item.value) for item in versions):
            self._latest[kind] = change.revision


def known_versions(insides: SchedulerInsides | ServiceInsides) -> Iterator[tuple[Kind, int]]:
    """Yield which version a program knows of each kind that it needs; 0 before the first list."""
    api_server = insides.api_server
    for name, reflector in api_server._reflectors.items():
        resource = reflector.resource
        kind = BY_PATH[resource.group, resource.version, resource.plural]
        yield kind, int(api_server.states[name].last_resource_version or 0)


class Sightings:
    """When a program knew which version of a kind. It is looked at now and then, so it may have known it sooner."""

    def __init__(self) -> None:
        self._versions: list[int] = []
        self._seen_at: list[float] = []

    def note(self, version: int, now: float) -> None:
        """Note that the program knows a version now."""
        if not self._versions or version > self._versions[-1]:
            self._versions.append(version)
            self._seen_at.append(now)

    def seen_at(self, version: int) -> float:
        """Return by when the program knew a version; infinity if it does not know it yet."""
        index = bisect_left(self._versions, version)
        return self._seen_at[index] if index < len(self._versions) else math.inf

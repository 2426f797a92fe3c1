"""What holds of watches: they show what is stored."""

from collections import deque
from typing import Final

from tests.worlds.api_server.kinds import Kind
from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.waits.versions import LatestVersions, known_versions

_SECONDS_BETWEEN_LOOKS: Final = 5.0
_LOOKS_BACK: Final = 3
_STARTS_SECONDS: Final = 30.0
# The watch of a kind that seldom changes misses its own end within 85 s.
_SETTLES_SECONDS: Final = 100.0


class WatchesKeepUp:
    """Without faults, and once they have been over for 100 s, a program knows of each kind what was stored 15 s ago.

    It has 30 s for its first lists, and with delayCacheUntilActive until they are there: those of a standby never are.
    Looked at every five seconds.
    """

    name = "watches keep up"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._latest = LatestVersions(observed.model.etcd)
        self._stored: deque[dict[Kind, int]] = deque(maxlen=_LOOKS_BACK + 1)
        self._behind: set[tuple[str, Kind]] = set()
        observed.model.etcd.on_restore.append(self._stored.clear)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _look(self) -> None:
        observed = self._observed
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        self._stored.append(self._latest.now())
        is_calm = observed.calm_from == 0.0 or observed.now > observed.calm_from + _SETTLES_SECONDS
        if is_calm and len(self._stored) > _LOOKS_BACK:
            for process in observed.programs:
                if process.outcome is None and observed.now - process.started_at > _STARTS_SECONDS:
                    self._look_at(process)

    def _look_at(self, process: Process) -> None:
        insides = scheduler_insides(process) or service_insides(process)
        if insides is not None and not (insides.has_cache and insides.has_synced):
            return
        stored = self._stored[0]
        behind = {
            (process.name, kind)
            for kind, version in (known_versions(insides) if insides is not None else ())
            if version < stored.get(kind, 0)
        }
        for name, kind in sorted(behind - self._behind, key=lambda each: each[1].plural):
            seconds = _LOOKS_BACK * _SECONDS_BETWEEN_LOOKS
            self._observed.violated(self, f"{name} does not know of {kind.plural} what was stored {seconds:g} s ago")
        self._behind = {each for each in self._behind if each[0] != process.name} | behind

    def at_end(self) -> None:
        """All was looked at as time went on."""

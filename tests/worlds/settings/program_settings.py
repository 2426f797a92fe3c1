"""How the programs of a world are set up: their configuration, options, and users' plugins.

A scenario names some of the SETTINGS; what each of them comes to is drawn from the world's seed.
"""

import os
import weakref
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml

from extender_service.config.known_gates import known_gates
from tests.worlds.clusters.draft import EXTRAS
from tests.worlds.settings.odd_extender import URL
from tests.worlds.simulation.world import World

Object = dict[str, Any]

# Pods name the second profile of worlds that have one.
BATCH_SCHEDULER: Final = "batch-scheduler"
# Gates that change how pods wait and how room is made for them, and not where pods fit. They are turned off where they
# are on: the hints of 1.31, off by default, miss a pod that goes and whose own anti-affinity has kept another one out.
_GATES: Final = ("SchedulerQueueingHints", "SchedulerPopFromBackoffQ", "SchedulerAsyncPreemption")
# Settings that are a user's plugin, and its class.
_PLUGINS: Final = {"fussy": "Fussy", "moods": "Moody", "order": "OldestFirst"}
_NOBODY: Final = "http://10.0.0.9:8888"


def _backoff(config: Object, random: Random) -> None:
    """Let pods back off for other times than by default."""
    config["podInitialBackoffSeconds"] = random.choice((1, 2, 3))
    config["podMaxBackoffSeconds"] = random.choice((3, 5, 10))


def _profiles(config: Object, random: Random) -> None:
    """Add a profile, which some pods name. It may score nothing, or make no room."""
    batch = msgspec.json.decode(msgspec.json.encode(config["profiles"][0]))
    batch["schedulerName"] = BATCH_SCHEDULER
    config["profiles"][0]["schedulerName"] = "default-scheduler"
    without = random.choice(((), ("preScore", "score"), ("postFilter",), ("postFilter", "preScore", "score")))
    batch["plugins"] |= {point: {"disabled": [{"name": "*"}]} for point in without}
    config["profiles"].append(batch)


def _sampling(config: Object, random: Random) -> None:
    """Look at some of the nodes only. Worlds have too few nodes to leave any out, except where nothing scores."""
    config["percentageOfNodesToScore"] = random.choice((0, 10, 100))


def _lost_extender(config: Object, random: Random) -> None:
    """Ask an extender, too, that is not there, and may be ignored."""
    lost = {"urlPrefix": _NOBODY, "ignorable": True, "httpTimeout": "1s", "nodeCacheCapable": True}
    config.setdefault("extenders", []).append({**lost, **_some_verbs(random)})


def _odd_extender(config: Object, random: Random) -> None:
    """Ask an extender, too, some of whose answers are late or wrong."""
    odd = {"urlPrefix": URL, "ignorable": random.random() < 0.5, "httpTimeout": "2s"}
    odd["nodeCacheCapable"] = random.random() < 0.5
    config.setdefault("extenders", []).append({**odd, **_some_verbs(random)})


def _some_verbs(random: Random) -> Object:
    verbs = random.sample(("filter", "prioritize", "preempt"), random.randint(1, 3))
    return {f"{verb}Verb": verb for verb in verbs} | {"weight": 1}


def _extenders(config: Object, random: Random) -> None:
    """Ask `serve` with whole nodes, or about some pods only; or do without it when it fails, if it does not bind."""
    for extender in config.get("extenders", ()):
        extender["nodeCacheCapable"] = random.random() < 0.4
        if "bindVerb" not in extender:
            extender["ignorable"] = random.random() < 0.5
            if random.random() < 0.3:
                extender["managedResources"] = [{"name": "example.com/gpu"}]


def _order(config: Object, _: Random) -> None:
    for profile in config["profiles"]:
        sorting = {"disabled": [{"name": "*"}], "enabled": [{"name": _PLUGINS["order"]}]}
        profile["plugins"]["queueSort"] = sorting


def _moods(config: Object, random: Random) -> None:
    _enabled(_PLUGINS["moods"])(config, random)
    binders = [{"name": _PLUGINS["moods"]}, {"name": "DefaultBinder"}]  # which is asked only where the first skips
    for profile in config["profiles"]:
        profile["plugins"]["bind"] = {"disabled": [{"name": "*"}], "enabled": binders}


def _enabled(name: str) -> Callable[[Object, Random], None]:
    def enable(config: Object, _: Random) -> None:
        for profile in config["profiles"]:
            profile["plugins"]["multiPoint"]["enabled"].append({"name": name})

    return enable


# In this order: each changes what the ones before have made.
_CHANGES: Final[dict[str, Callable[[Object, Random], None]]] = {
    "backoff": _backoff,
    "extenders": _extenders,
    "lost-extender": _lost_extender,
    "odd-extender": _odd_extender,
    "profiles": _profiles,
    "sampling": _sampling,
    "order": _order,
    "fussy": _enabled(_PLUGINS["fussy"]),
    "moods": _moods,
}
# Beside these changes of the configuration:
# - flushes: pods that wait for an event are tried again after less than five minutes
# - gates: some feature gates are off that are on by default
# - looks: people ask programs for a dump by SIGUSR2, and metrics are read
SETTINGS: Final = (*_CHANGES, "flushes", "gates", "looks")


def draw_wanted(random: Random) -> frozenset[str]:
    """Draw some of the settings, and of the features that no cluster has by itself (swarm testing)."""
    rate = random.choice((0.1, 0.3, 0.6))
    return frozenset(name for name in (*SETTINGS, *EXTRAS) if random.random() < rate)


class ProgramSettings:
    """What the programs of a world are given, as long as this object exists: they read files when they start."""

    def __init__(self, world: World, settings: Collection[str], minor: int) -> None:
        """`minor` is the release that programs follow."""
        self._world = world
        self._settings = frozenset(settings).intersection(SETTINGS)
        self._minor = minor

    def scheduler_arguments(self, base: Path) -> tuple[str, ...]:
        """Return options of `schedule`, with a configuration that is made from the one in a file."""
        return ("--config", str(self._changed(base, self._settings)), *self._options())

    def service_arguments(self, base: Path) -> tuple[str, ...]:
        """Return the same of `serve`, which has the profiles that pods name."""
        return ("--config", str(self._changed(base, self._settings.intersection(("profiles",)))))

    def _changed(self, base: Path, settings: Collection[str]) -> Path:
        if not settings:
            return base
        config = yaml.safe_load(base.read_text())
        for name, change in _CHANGES.items():
            if name in settings:
                change(config, self._random(name))
        return self._in_memory(base.name, msgspec.json.encode(config))

    def _in_memory(self, name: str, content: bytes) -> Path:
        """Return a file that is on no disk: worlds end in processes that clean nothing up."""
        descriptor = os.memfd_create(name)
        os.write(descriptor, content)
        weakref.finalize(self, os.close, descriptor)
        return Path(f"/proc/self/fd/{descriptor}")

    def _options(self) -> Iterator[str]:
        for name in sorted(self._settings.intersection(_PLUGINS)):
            yield from ("--plugin", f"tests.worlds.settings.moody:{_PLUGINS[name]}")
        if "flushes" in self._settings:
            seconds = self._random("flushes").choice((20, 60, 150))
            yield from ("--pod-max-in-unschedulable-pods-duration", f"{seconds}s")
        if "gates" in self._settings and (gates := [*self._gates(self._random("gates"))]):
            yield from ("--feature-gates", ",".join(gates))

    def _gates(self, random: Random) -> Iterator[str]:
        known = known_gates(self._minor)
        for name in _GATES:
            gate, is_changed = known.get(name), random.random() < 0.6
            if gate is not None and gate.default and not gate.is_locked and is_changed:
                yield f"{name}=false"

    def _random(self, name: str) -> Random:
        return self._world.random(f"setting {name}")

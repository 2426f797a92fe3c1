"""How the programs of a world are set up: their configuration, options, and users' plugins.

A scenario names some of the SETTINGS; what each of them comes to is drawn from the world's seed.
"""

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml

from extender_service.config.known_gates import known_gates
from tests.worlds.clusters.draft import EXTRAS, NEWER
from tests.worlds.settings.binding_settings import (
    BINDING_CHANGES,
    BINDING_PLUGINS,
    BINDING_PLUGINS_MODULE,
    BINDING_SETTINGS,
    DELAYED_CACHE,
)
from tests.worlds.settings.cancelling_extender import CancellingExtender
from tests.worlds.settings.odd_extender import OddExtender
from tests.worlds.settings.picky_extender import PickyExtender
from tests.worlds.simulation.world import World

Object = dict[str, Any]

# Pods name the second profile of worlds that have one.
BATCH_SCHEDULER: Final = "batch-scheduler"
# Gates that change how pods wait and how room is made for them, and not where pods fit. They are turned off where they
# are on: the hints of 1.31, off by default, miss a pod that goes and whose own anti-affinity has kept another one out.
_GATES: Final = ("SchedulerQueueingHints", "SchedulerPopFromBackoffQ", "SchedulerAsyncPreemption")
# Settings that are a user's plugin, and its class.
_PLUGINS: Final = {"fussy": "Fussy", "moods": "Moody", "order": "OldestFirst"}
# The same of plugins that are made in other modules beside this one: several, or one of `serve`.
_FICKLE: Final = ("FickleNearby", "FickleAnywhere")
_VAGUE: Final = "Vague"
_GANG: Final = "Gang"  # of the program that binds
_LOST_URL: Final = "http://10.0.0.9:8888"
# Replicas wait 5 s for `serve` to bind a pod.
_BIND_TIMEOUTS_SECONDS: Final = (3, 5)


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


def _narrow_sampling(config: Object, random: Random) -> None:
    """Look at some of the nodes only, and leave some out though there are few (few_are_enough)."""
    config["percentageOfNodesToScore"] = random.choice((0, 20, 50))


def _lost_extender(config: Object, random: Random) -> None:
    """Ask an extender, too, that is not there, and may be ignored."""
    lost = {"urlPrefix": _LOST_URL, "ignorable": True, "httpTimeout": "1s", "nodeCacheCapable": True}
    config.setdefault("extenders", []).append({**lost, **_some_verbs(random)})


def _odd_extender(config: Object, random: Random) -> None:
    """Ask an extender, too, some of whose answers are late or wrong."""
    odd = {"urlPrefix": OddExtender.url(), "ignorable": random.random() < 0.5, "httpTimeout": "2s"}
    odd["nodeCacheCapable"] = random.random() < 0.5
    config.setdefault("extenders", []).append({**odd, **_some_verbs(random)})


def _cancels(config: Object, random: Random) -> None:
    """Ask an extender, too, that cancels some pods which it is asked about."""
    cancelling = {"urlPrefix": CancellingExtender.url(), "httpTimeout": "2s", "nodeCacheCapable": True, "weight": 1}
    config.setdefault("extenders", []).append({**cancelling, "filterVerb": "filter", "prioritizeVerb": "prioritize"})


def _picky_extender(config: Object, random: Random) -> None:
    """Ask an extender, too, that does not agree to all victims."""
    picky = {"urlPrefix": PickyExtender.url(), "ignorable": random.random() < 0.5, "httpTimeout": "2s", "weight": 1}
    picky["nodeCacheCapable"] = random.random() < 0.5
    config.setdefault("extenders", []).append({**picky, "prioritizeVerb": "prioritize", "preemptVerb": "preempt"})


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


def _fickle(config: Object, random: Random) -> None:
    for name in random.choice((_FICKLE, _FICKLE, _FICKLE[:1], _FICKLE[1:])):
        _enabled(name)(config, random)


def _short_bind_timeout(config: Object, random: Random) -> None:
    """Wait for the volumes of a pod for less long than some take to be made."""
    arguments = {"bindTimeoutSeconds": random.choice(_BIND_TIMEOUTS_SECONDS)}
    for profile in config["profiles"]:
        profile.setdefault("pluginConfig", []).append({"name": "VolumeBinding", "args": arguments})


def _vague(config: Object, random: Random) -> None:
    """Let the plugin filter before all others, which would refuse the same nodes: it is named twice for that."""
    _enabled(_VAGUE)(config, random)
    for profile in config["profiles"]:
        profile["plugins"].setdefault("filter", {})["enabled"] = [{"name": _VAGUE}]


def _bind_by_service(config: Object, _: Random) -> None:
    """Leave bindings to `serve`, which decides beside the plugins of the scheduler."""
    for extender in config["extenders"]:
        extender["bindVerb"] = "bind"


def _reserve_nothing(config: Object, _: Random) -> None:
    """Do nothing for a pod between its decision and its binding: the scheduler that asks has done all of it."""
    for profile in config["profiles"]:
        without = {point: {"disabled": [{"name": "*"}]} for point in ("reserve", "permit", "preBind", "postBind")}
        profile["plugins"] |= without


def _enabled(name: str) -> Callable[[Object, Random], None]:
    def enable(config: Object, _: Random) -> None:
        for profile in config["profiles"]:
            profile["plugins"]["multiPoint"]["enabled"].append({"name": name})

    return enable


_Changes = Mapping[str, Callable[[Object, Random], None]]
# Of the configuration of `schedule`, in this order: each changes what the ones before have made.
_CHANGES: Final[_Changes] = {
    "backoff": _backoff,
    "bindings": _bind_by_service,
    "extenders": _extenders,
    "lost-extender": _lost_extender,
    "odd-extender": _odd_extender,
    "cancels": _cancels,
    "profiles": _profiles,
    "sampling": _sampling,
    "order": _order,
    "fussy": _enabled(_PLUGINS["fussy"]),
    "moods": _moods,
    "fickle": _fickle,
}
# And of that of `serve`.
_CHANGES_OF_SERVICE: Final[_Changes] = {"bindings": _reserve_nothing, "profiles": _profiles, "vague": _vague}
# What no swarm has: of `schedule`, and of the program that binds, behind all others.
_NEWER_CHANGES: Final[_Changes] = {"narrow-sampling": _narrow_sampling, "picky-extender": _picky_extender}
_CHANGES_OF_BINDINGS: Final[_Changes] = {"slow-volumes": _short_bind_timeout, "gangs": _enabled(_GANG)}
# Beside these changes of the configuration:
# - callers: another scheduler asks `serve`, about pods of its own
# - deadlines: attempts have little time, which fickle plugins use up at times
# - flushes: pods that wait for an event are tried again after less than five minutes
# - gates: some feature gates are off that are on by default
# - looks: people ask programs for a dump by SIGUSR2, and metrics are read
# - verbose: programs log what they log with -v 4
_OTHERS: Final = ("callers", "deadlines", "flushes", "gates", "looks", "verbose")
_ELSEWHERE: Final = (*dict.fromkeys((*_CHANGES, *_CHANGES_OF_SERVICE, *_OTHERS)),)
SETTINGS: Final = (*_ELSEWHERE, *BINDING_SETTINGS)
# What came later is drawn behind all else, so that a seed still draws what it drew before.
_LATER: Final = ("batches", "bindings", "callers", "cancels", "deadlines", "fickle", "vague", "verbose")
# And this behind BINDING_SETTINGS.
_LAST: Final = ("shared-claims",)


def draw_wanted(random: Random) -> frozenset[str]:
    """Draw some of the settings, and of the features that no cluster has by itself (swarm testing).

    What matters while pods are being bound came later, and is drawn behind all else, half as often. DELAYED_CACHE came
    last. It is drawn from a source of its own, so that what the caller draws next stays as it was.
    """
    rate = random.choice((0.1, 0.3, 0.6))
    names = sorted((*_ELSEWHERE, *EXTRAS), key=_LATER.__contains__)
    drawn = [name for name in names if name not in _LAST and random.random() < rate]
    drawn += [name for name in BINDING_SETTINGS if name != DELAYED_CACHE and random.random() < rate / 2]
    its_own = Random(repr(random.getstate()))
    if its_own.random() < rate / 2:
        drawn.append(DELAYED_CACHE)
    return frozenset((*drawn, *(name for name in _LAST if random.random() < rate)))


class ProgramSettings:
    """What the programs of a world are given, as long as this object exists: they read files when they start."""

    def __init__(self, world: World, settings: Collection[str], minor: int) -> None:
        """`minor` is the release that programs follow."""
        self._world = world
        self._settings = frozenset(settings).intersection((*SETTINGS, *NEWER))
        self._minor = minor

    def scheduler_arguments(self, base: Path, *, binds: bool = True) -> tuple[str, ...]:
        """Return options of `schedule`, with a configuration that is made from the one in a file.

        Unless it `binds`, it lacks the plugins that take part in bindings.
        """
        binding = {name: change for name, change in BINDING_CHANGES.items() if binds or name not in BINDING_PLUGINS}
        newer = {**_NEWER_CHANGES, **(_CHANGES_OF_BINDINGS if binds else {})}
        config = self._changed(base, {**_CHANGES, **binding, **newer})
        return ("--config", str(config), *self._options(), *(self._binding_plugins() if binds else ()))

    def service_arguments(self, base: Path, *, binds: bool = False) -> tuple[str, ...]:
        """Return the same of `serve`, which has the profiles that pods name, and such plugins if it `binds`."""
        binding = {name: change for name, change in BINDING_CHANGES.items() if binds and name in BINDING_PLUGINS}
        config = self._changed(base, {**_CHANGES_OF_SERVICE, **binding, **(_CHANGES_OF_BINDINGS if binds else {})})
        plugin = ("--plugin", f"tests.worlds.settings.vague:{_VAGUE}") if "vague" in self._settings else ()
        return ("--config", str(config), *plugin, *(self._binding_plugins() if binds else ()))

    def _changed(self, base: Path, changes: _Changes) -> Path:
        if not self._settings.intersection(changes):
            return base
        config = yaml.safe_load(base.read_text())
        for name, change in changes.items():
            if name in self._settings:
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
        for name in _FICKLE if "fickle" in self._settings else ():
            yield from ("--plugin", f"tests.worlds.settings.fickle:{name}")
        if "deadlines" in self._settings:
            yield from ("--decision-timeout", self._random("deadlines").choice(("20ms", "80ms", "300ms")))
        if "flushes" in self._settings:
            seconds = self._random("flushes").choice((20, 60, 150))
            yield from ("--pod-max-in-unschedulable-pods-duration", f"{seconds}s")
        if "gates" in self._settings and (gates := [*self._gates(self._random("gates"))]):
            yield from ("--feature-gates", ",".join(gates))

    def _binding_plugins(self) -> Iterator[str]:
        for name in sorted(BINDING_PLUGINS.keys() & self._settings):
            yield from ("--plugin", f"{BINDING_PLUGINS_MODULE}:{BINDING_PLUGINS[name]}")
        if "gangs" in self._settings:
            yield from ("--plugin", f"tests.worlds.settings.gangs:{_GANG}")

    def _gates(self, random: Random) -> Iterator[str]:
        known = known_gates(self._minor)
        for name in _GATES:
            gate, is_changed = known.get(name), random.random() < 0.6
            if gate is not None and gate.default and not gate.is_locked and is_changed:
                yield f"{name}=false"

    def _random(self, name: str) -> Random:
        return self._world.random(f"setting {name}")

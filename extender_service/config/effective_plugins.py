"""Which plugins run at which extension point (kube-scheduler's framework/runtime, NewFramework, and profile.NewMap)."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from extender_service.config.defaulting import ALL
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, PluginRef, PluginSet

# The plugins of each extension point, named as in a configuration (preFilter), in the order in which they run.
EffectivePlugins = dict[str, tuple[PluginRef, ...]]
# The extension points that each known plugin implements, by the plugin's name.
PointsOf = Mapping[str, Collection[str]]

_MULTI_POINT = "multiPoint"
_LOAD_IT = "load it by --plugin MODULE:CLASS, or install its package"
# Extension points of groups of pods, which later releases have and this program does not run.
_POINTS_OF_GROUPS = frozenset({"placementGenerate", "placementScore", "podGroupPostFilter"})
_OF_GROUPS = "not supported: this program does not schedule groups of pods, remove the plugin"
_UP_TO_1_31 = "kube-scheduler has it up to 1.31, remove the plugin: NodeVolumeLimits counts such volumes since"
# For plugins that the release does not have, or this program.
_UNSUPPORTED = {
    "AzureDiskLimits": _UP_TO_1_31,
    "CinderLimits": _UP_TO_1_31,
    "DynamicResources": "not supported before 1.34, with any feature gates: remove the plugin",
    "EBSLimits": _UP_TO_1_31,
    "GCEPDLimits": _UP_TO_1_31,
    "GangScheduling": _OF_GROUPS,
    "NodeDeclaredFeatures": "kube-scheduler has it from 1.35 on, remove the plugin",
    "PodGroupPodsCount": _OF_GROUPS,
    "TopologyPlacementGenerator": _OF_GROUPS,
    "DeferredPodScheduling": "not supported: this program does not preempt for deferred resizes, remove the plugin",
}


def effective_profiles(config: KubeSchedulerConfiguration, points_of: PointsOf) -> dict[str, EffectivePlugins]:
    """Return the effective plugins of every profile by scheduler name. Raises ConfigError with all problems."""
    problems: list[Problem] = []
    effective: dict[str, EffectivePlugins] = {}
    for index, profile in enumerate(config.profiles):
        try:
            effective[profile.scheduler_name] = effective_plugins(profile, points_of, f"profiles[{index}]")
        except ConfigError as error:
            problems += error.problems
    if not problems:
        problems += _check_queue_sort(config, effective)
    if problems:
        raise ConfigError(problems)
    return effective


def effective_plugins(profile: KubeSchedulerProfile, points_of: PointsOf, path: str) -> EffectivePlugins:
    """Return the plugins of a profile at each extension point; score plugins have their weight, all others 0.

    `path` is the profile's place in the configuration. Raises ConfigError if kube-scheduler would not start.
    """
    path = f"{path}.plugins"
    sets = profile.plugins.sets()
    multi_point = sets.pop(_MULTI_POINT).enabled
    problems = [
        *(
            Problem(_of_multi_point(plugin, path), _unknown(plugin.name, points_of))
            for plugin in multi_point
            if plugin.name not in points_of
        ),
        *(problem for point, plugins in sets.items() for problem in _check(point, plugins, points_of, path)),
        *_check_twice(sets, multi_point, points_of, path),
    ]
    if problems:
        raise ConfigError(problems)
    names = {
        point: _expand(point, plugins, multi_point, points_of)
        for point, plugins in sets.items()
        if point not in _POINTS_OF_GROUPS
    }
    weights = _weights((*sets["score"].enabled, *multi_point), points_of)
    problems += _check_complete(profile, names, path)
    problems += _check_total(weights, path)
    if problems:
        raise ConfigError(problems)
    return {
        point: tuple(PluginRef(name=name, weight=weights[name] if point == "score" else 0) for name in order)
        for point, order in names.items()
    }


def _expand(point: str, plugins: PluginSet, multi_point: tuple[PluginRef, ...], points_of: PointsOf) -> list[str]:
    """Return the names of a point's plugins in the order of expandMultiPointPlugins.

    A plugin that the point names itself keeps the point's order. Those that multiPoint has too come first, then
    multiPoint's others, then the point's own.
    """
    own = [plugin.name for plugin in plugins.enabled]
    disabled = {plugin.name for plugin in plugins.disabled}
    if ALL in disabled:
        return own
    inherited = [each.name for each in multi_point if point in points_of[each.name] and each.name not in disabled]
    overriding = [name for name in own if name in inherited]
    return [
        *overriding,
        *(name for name in inherited if name not in own),
        *(name for name in own if name not in overriding),
    ]


def _weights(plugins: tuple[PluginRef, ...], points_of: PointsOf) -> dict[str, int]:
    """Return the weights of score plugins. The first weight counts: the score point's plugins precede multiPoint's."""
    weights: dict[str, int] = {}
    for plugin in plugins:
        if "score" in points_of[plugin.name]:
            weights.setdefault(plugin.name, plugin.weight or 1)
    return weights


def _of_multi_point(plugin: PluginRef, path: str) -> str:
    """Return the place of a plugin in multiPoint, by its name: with the defaults before it, it has another index than
    in the file."""
    return f"{path}.{_MULTI_POINT}.enabled[{plugin.name}]"


def _unknown(name: str, points_of: PointsOf) -> str:
    """Return the message for a plugin that is not supported, that other releases have, or that does not exist: then the
    closest name that does, and what to do for your own plugin."""
    if name in _UNSUPPORTED:
        return _UNSUPPORTED[name]
    close = difflib.get_close_matches(name, points_of, n=1)
    return f'plugin "{name}" does not exist: ' + (f"did you mean {close[0]}? If not, {_LOAD_IT}" if close else _LOAD_IT)


def _check(point: str, plugins: PluginSet, points_of: PointsOf, path: str) -> Iterator[Problem]:
    """Yield what is wrong with the plugins that an extension point names itself."""
    for index, plugin in enumerate(plugins.enabled):
        if plugin.name not in points_of:
            yield Problem(f"{path}.{point}.enabled[{index}]", _unknown(plugin.name, points_of))
    seen: set[str] = set()
    for index, plugin in enumerate(plugins.enabled):
        here = f"{path}.{point}.enabled[{index}]"
        if plugin.name in points_of and point in _POINTS_OF_GROUPS:
            yield Problem(here, _OF_GROUPS)
        elif plugin.name in points_of and point not in points_of[plugin.name]:
            yield Problem(here, f'plugin "{plugin.name}" does not extend {_interface(point)} plugin')
        elif plugin.name in seen:
            yield Problem(here, f'plugin "{plugin.name}" already registered as "{_interface(point)}"')
        seen.add(plugin.name)


def _check_twice(
    sets: Mapping[str, PluginSet], multi_point: tuple[PluginRef, ...], points_of: PointsOf, path: str
) -> Iterator[Problem]:
    """Check that a plugin is twice in multiPoint only if each of its extension points names or disables it."""
    seen: set[str] = set()
    for plugin in multi_point:
        if plugin.name in seen:
            for point, plugins in sets.items():
                named = {each.name for each in (*plugins.enabled, *plugins.disabled)}
                everything_is_off = any(each.name == ALL for each in plugins.disabled)
                if point in points_of.get(plugin.name, ()) and plugin.name not in named and not everything_is_off:
                    message = f'plugin "{plugin.name}" already registered as "{_interface(point)}"'
                    yield Problem(_of_multi_point(plugin, path), message)
                    break
        seen.add(plugin.name)


def _check_complete(profile: KubeSchedulerProfile, names: Mapping[str, list[str]], path: str) -> Iterator[Problem]:
    whose = f'for profile with scheduler name "{profile.scheduler_name}"'
    sorting = len(names["queueSort"])
    if sorting != 1:
        yield Problem(f"{path}.queueSort", f"only one queue sort plugin required {whose}, but got {sorting}")
    if not names["bind"]:
        yield Problem(f"{path}.bind", f"at least one bind plugin is needed {whose}")


def _check_total(weights: Mapping[str, int], path: str) -> Iterator[Problem]:
    """Check the total of weights. It cannot overflow, but the reference reports a negative total as an overflow."""
    total = 0
    for weight in weights.values():
        if total < 0:
            negative = " and ".join(f"{name} (now {weight})" for name, weight in weights.items() if weight < 0)
            detail = f"total score of Score plugins could overflow: give {negative} a weight above 0"
            yield Problem(f"{path}.score", detail)
            return
        total += weight


def _check_queue_sort(
    config: KubeSchedulerConfiguration, effective: Mapping[str, EffectivePlugins]
) -> Iterator[Problem]:
    """Check that all profiles sort the queue alike, because all pods wait in one queue."""
    first = config.profiles[0]
    expected = effective[first.scheduler_name]["queueSort"][0].name
    for index, profile in enumerate(config.profiles):
        name = effective[profile.scheduler_name]["queueSort"][0].name
        whose = f'for profile "{profile.scheduler_name}"'
        if name != expected:
            message = f'different queue sort plugins {whose}: "{name}", first: "{expected}"'
            yield Problem(f"profiles[{index}].plugins.queueSort", message)
        elif profile.args(name) != first.args(name):
            yield Problem(f"profiles[{index}].pluginConfig", f"different queue sort plugin args {whose}")


def _interface(point: str) -> str:
    """Return the name of an extension point's Go interface, for messages."""
    return f"{point[0].upper()}{point[1:]}Plugin"

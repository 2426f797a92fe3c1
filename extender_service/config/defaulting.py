"""Defaults that depend on other fields (kube-scheduler's apis/config/v1/defaults.go and default_plugins.go)."""

from collections.abc import Iterable, Sequence
from typing import Any

from extender_service.config.args import ArgsTypes, PluginArgs
from extender_service.config.rules import Rules
from extender_service.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)
from extender_service.kube.parsing.api_defaults import DEFAULT_SCHEDULER_NAME

ALL = "*"

# The default plugins of a profile in v1.31, in the order in which they run; a weight of 0 counts as 1.
_DEFAULT_PLUGINS = (
    PluginRef(name="SchedulingGates"),
    PluginRef(name="PrioritySort"),
    PluginRef(name="NodeUnschedulable"),
    PluginRef(name="NodeName"),
    PluginRef(name="TaintToleration", weight=3),
    PluginRef(name="NodeAffinity", weight=2),
    PluginRef(name="NodePorts"),
    PluginRef(name="NodeResourcesFit", weight=1),
    PluginRef(name="VolumeRestrictions"),
    PluginRef(name="NodeVolumeLimits"),
    PluginRef(name="VolumeBinding"),
    PluginRef(name="VolumeZone"),
    PluginRef(name="PodTopologySpread", weight=2),
    PluginRef(name="InterPodAffinity", weight=2),
    PluginRef(name="DefaultPreemption"),
    PluginRef(name="NodeResourcesBalancedAllocation", weight=1),
    PluginRef(name="ImageLocality", weight=1),
    PluginRef(name="DefaultBinder"),
)


def default_plugins(rules: Rules) -> list[PluginRef]:
    """Return the default plugins of a profile, in the order in which they run; a weight of 0 counts as 1."""
    plugins = {each.name: each for each in _DEFAULT_PLUGINS}
    names = list(plugins)
    if rules.node_named_first:
        names.remove("NodeName")
        names.insert(names.index("NodeUnschedulable"), "NodeName")
    if rules.declared_features:
        names.append("NodeDeclaredFeatures")
        plugins["NodeDeclaredFeatures"] = PluginRef(name="NodeDeclaredFeatures")
    if rules.dynamic_resources:
        names.insert(names.index("DefaultPreemption"), "DynamicResources")
        weight = 2 if rules.scored_dynamic_resources else 0
        plugins["DynamicResources"] = PluginRef(name="DynamicResources", weight=weight)
    return [plugins[name] for name in names]


def set_defaults(config: KubeSchedulerConfiguration, args_types: ArgsTypes, rules: Rules) -> KubeSchedulerConfiguration:
    """Fill in what the file left out. Each enabled plugin in `args_types` then has arguments."""
    profiles = config.profiles or (KubeSchedulerProfile(),)
    if len(profiles) == 1 and "scheduler_name" not in profiles[0].model_fields_set:
        profiles = (profiles[0].model_copy(update={"scheduler_name": DEFAULT_SCHEDULER_NAME}),)
    changes: dict[str, Any] = {"profiles": tuple(_profile(profile, args_types, rules) for profile in profiles)}
    if "enable_contention_profiling" not in config.model_fields_set:
        changes["enable_contention_profiling"] = config.enable_profiling
    return config.model_copy(update=changes)


def _profile(profile: KubeSchedulerProfile, args_types: ArgsTypes, rules: Rules) -> KubeSchedulerProfile:
    plugins = _merge_plugins(profile.plugins, default_plugins(rules))
    given = {each.name for each in profile.plugin_config}
    missing = sorted(plugins.enabled_names() & args_types.keys() - given)
    plugin_config = (*profile.plugin_config, *(PluginConfig(name=name, args=args_types[name]()) for name in missing))
    defaulted = tuple(_with_defaults(each, rules) for each in plugin_config)
    return profile.model_copy(update={"plugins": plugins, "plugin_config": defaulted})


def _with_defaults(plugin_config: PluginConfig, rules: Rules) -> PluginConfig:
    if not isinstance(plugin_config.args, PluginArgs):
        return plugin_config
    return plugin_config.model_copy(update={"args": plugin_config.args.with_defaults(rules)})


def _merge_plugins(custom: Plugins, defaults: Sequence[PluginRef]) -> Plugins:
    # Only multiPoint has defaults; at the other points there is nothing to merge with.
    return custom.model_copy(update={"multi_point": _merge_with_defaults(custom.multi_point, defaults)})


def _merge_with_defaults(custom: PluginSet, all_defaults: Sequence[PluginRef]) -> PluginSet:
    """Return the default plugins that `custom` does not disable, with its weights; then the others that it enables."""
    disabled = _names(custom.disabled)
    defaults = () if ALL in disabled else tuple(each for each in all_defaults if each.name not in disabled)
    # If a name occurs twice, the last one replaces the default; the other stays, so that the check reports it.
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replaced = {last[plugin.name] for plugin in defaults if plugin.name in last}
    kept = (custom.enabled[last[plugin.name]] if plugin.name in last else plugin for plugin in defaults)
    added = (plugin for index, plugin in enumerate(custom.enabled) if index not in replaced)
    return PluginSet(enabled=(*kept, *added), disabled=tuple(PluginRef(name=each.name) for each in custom.disabled))


def _names(plugins: Iterable[PluginRef]) -> set[str]:
    return {plugin.name for plugin in plugins}

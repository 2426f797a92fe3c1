"""Plugins by name, and the profiles that a configuration builds from them."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from extender_service.config.args import PluginArgs
from extender_service.config.effective_plugins import EffectivePlugins, effective_profiles
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.reading import problems_of
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Plugin
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import RetryOnError, check_retry_on
from extender_service.framework.registry.discovery import PluginLoadError, in_one_line
from extender_service.framework.registry.reads import ReadsError, check_reads
from extender_service.kube.types.core import Object

log = logging.getLogger(__name__)

_Check = Callable[[type[Plugin], KubeSchedulerProfile], object]


class Registry:
    """The plugins that a configuration can name in the release whose rules are given.

    `broken` has a line for each plugin that could not be loaded. If a configuration names a plugin that does not exist,
    the error includes these lines. Construction raises PluginLoadError for two plugins with the same name.
    """

    def __init__(
        self, plugins: Iterable[type[Plugin]], broken: Sequence[str] = (), rules: Rules = DEFAULT_RULES
    ) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            if plugin.name in self._plugins:
                classes = (self._plugins[plugin.name], plugin)
                both = " and ".join(f"{each.__module__}:{each.__qualname__}" for each in classes)
                raise PluginLoadError(f"two plugins have the name {plugin.name}: {both}")
            self._plugins[plugin.name] = plugin
        self._points_of = {
            name: points for name, plugin in self._plugins.items() if (points := plugin.points_in(rules))
        }
        self._broken = broken
        self._rules = rules

    def check(self, config: KubeSchedulerConfiguration) -> None:
        """Check a configuration as `profiles` does, but construct no plugin. Raises ConfigError."""
        try:
            effective = effective_profiles(config, self._points_of)
        except ConfigError as error:
            broken = self._broken if self._is_any_unknown(config) else ()
            raise ConfigError([*error.problems, *(Problem("", f"not loaded: {each}") for each in broken)]) from None
        problems: list[Problem] = []
        for profile in config.profiles:
            enabled = _enabled(effective[profile.scheduler_name])
            for plugin in (plugin for name, plugin in self._plugins.items() if name in enabled):
                problems += _problems(plugin, profile, self._rules)
        if problems:
            raise ConfigError(problems)

    def _is_any_unknown(self, config: KubeSchedulerConfiguration) -> bool:
        return any(profile.plugins.enabled_names() - self._plugins.keys() for profile in config.profiles)

    def reads(self, config: KubeSchedulerConfiguration) -> frozenset[type[Object]]:
        """Return the kinds of objects, besides nodes and pods, that the enabled plugins read. Raises ConfigError."""
        return frozenset(kind for name in self.enabled(config) for kind in self._plugins[name].reads_in(self._rules))

    def enabled(self, config: KubeSchedulerConfiguration) -> frozenset[str]:
        """Return the plugins that run at any point of any profile. Raises ConfigError."""
        effective = effective_profiles(config, self._points_of)
        return frozenset(name for plugins in effective.values() for name in _enabled(plugins))

    def profiles(self, config: KubeSchedulerConfiguration, handle: Handle) -> dict[str, Profile]:
        """Construct the plugins of every profile; returns profiles by scheduler name, in the configuration's order.

        Raises ConfigError for a configuration with which kube-scheduler would not start.
        """
        effective = effective_profiles(config, self._points_of)
        return {
            profile.scheduler_name: self._profile(profile, effective[profile.scheduler_name], handle)
            for profile in config.profiles
        }

    def _profile(self, profile: KubeSchedulerProfile, effective: EffectivePlugins, handle: Handle) -> Profile:
        enabled = _enabled(effective)
        # One instance serves all of a plugin's extension points.
        made = {name: _made(plugin, profile, handle) for name, plugin in self._plugins.items() if name in enabled}
        return Profile(
            profile.scheduler_name,
            {point: [(made[plugin.name], plugin.weight) for plugin in plugins] for point, plugins in effective.items()},
            handle.waiting_pods,
            clock=handle.clock,
            random=handle.random,
            request_rules=handle.cluster.request_rules,
        )


def _enabled(effective: EffectivePlugins) -> set[str]:
    return {plugin.name for plugins in effective.values() for plugin in plugins}


def _made(plugin: type[Plugin], profile: KubeSchedulerProfile, handle: Handle) -> Plugin:
    """Construct a plugin. Raises ConfigError, also where the plugin itself rejects its arguments."""
    args = _args(plugin, profile)
    try:
        made = plugin(args, handle)
    except ValueError as error:
        raise ConfigError([Problem(_args_of(plugin, profile), str(error))]) from error
    except Exception as error:
        log.exception("a plugin cannot be constructed", extra={"plugin": plugin.name})
        raise ConfigError([Problem(_named(plugin, profile), in_one_line(error))]) from error
    _check_retry_on(made, profile, handle.rules)
    return made


def _problems(plugin: type[Plugin], profile: KubeSchedulerProfile, rules: Rules) -> Iterator[Problem]:
    """Yield what is wrong with a plugin's arguments and with its class."""
    checks: tuple[_Check, ...] = (_args, _check_reads, partial(_check_class, rules=rules))
    for check in checks:
        try:
            check(plugin, profile)
        except ConfigError as error:
            yield from error.problems


def _check_reads(plugin: type[Plugin], profile: KubeSchedulerProfile) -> None:
    try:
        check_reads(plugin)
    except ReadsError as error:
        raise ConfigError([Problem(_named(plugin, profile), str(error))]) from error


def _check_class(plugin: type[Plugin], profile: KubeSchedulerProfile, rules: Rules) -> None:
    """Check the `retry_on` of the class, unless only an object has it: where it is a property, or None until then."""
    retry_on: object = plugin.retry_on
    if retry_on is not None and not hasattr(retry_on, "__get__"):
        _check_retry_on(plugin, profile, rules)


def _check_retry_on(plugin: Plugin | type[Plugin], profile: KubeSchedulerProfile, rules: Rules) -> None:
    try:
        check_retry_on(plugin, rules)
    except RetryOnError as error:
        raise ConfigError([Problem(_named(plugin, profile), str(error))]) from error


def _args(plugin: type[Plugin], profile: KubeSchedulerProfile) -> Any:
    """Return a plugin's arguments as its `args_type`; without one, as in the file. Raises ConfigError."""
    given = profile.args(plugin.name)
    # Those of in-tree plugins have been read with the file.
    if plugin.args_type is None or isinstance(given, PluginArgs):
        return given
    try:
        return TypeAdapter(plugin.args_type).validate_python({} if given is None else given)
    except ValidationError as error:
        where = _args_of(plugin, profile)
        raise ConfigError(Problem(_joined(where, path), message) for path, message in problems_of(error)) from None
    except PydanticUserError as error:
        raise ConfigError([Problem(_named(plugin, profile), f"args_type: {error.message.splitlines()[0]}")]) from error
    except Exception as error:
        # From a validator of the plugin: pydantic passes on what is neither ValueError nor AssertionError.
        log.exception("the arguments of a plugin cannot be read", extra={"plugin": plugin.name})
        raise ConfigError([Problem(_args_of(plugin, profile), in_one_line(error))]) from error


def _named(plugin: Plugin | type[Plugin], profile: KubeSchedulerProfile) -> str:
    return f"profile {profile.scheduler_name}: plugin {plugin.name}"


def _args_of(plugin: type[Plugin], profile: KubeSchedulerProfile) -> str:
    return f"profile {profile.scheduler_name}: pluginConfig of {plugin.name}: args"


def _joined(path: str, inner: str) -> str:
    return f"{path}{inner}" if not inner or inner.startswith("[") else f"{path}.{inner}"

"""Loads a configuration: decode, set defaults, validate, complete, as kube-scheduler does when it starts."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from extender_service.config.args import ArgsTypes, PluginArgs
from extender_service.config.checks import validate, validate_made
from extender_service.config.defaulting import set_defaults
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.reading import decode
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)

# The plugin whose arguments also depend on the configuration's extenders.
_FIT = "NodeResourcesFit"


Change = Callable[[KubeSchedulerConfiguration], KubeSchedulerConfiguration]
"""Returns a configuration with what the command line says instead of the file."""


def unchanged(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration as it is."""
    return config


def load_config(
    path: Path, args_types: ArgsTypes, rules: Rules = DEFAULT_RULES, change: Change = unchanged
) -> KubeSchedulerConfiguration:
    """Return the effective configuration of a YAML or JSON file.

    `args_types` gives the type of a plugin's arguments; the arguments of other plugins stay as the file has them.
    `change` is applied after the defaults and before the checks, as kube-scheduler applies --leader-elect.
    Raises ConfigError, with one line for each problem, each naming the file and the field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError([Problem("", f"cannot be read: {reason}")], str(path)) from None
    try:
        return parse_config(text, args_types, rules, change)
    except ConfigError as error:
        raise ConfigError(error.problems, str(path)) from None


def parse_config(
    text: str, args_types: ArgsTypes, rules: Rules = DEFAULT_RULES, change: Change = unchanged
) -> KubeSchedulerConfiguration:
    """Return the effective configuration of a file's text, as `load_config` does. Raises ConfigError."""
    known = _known(args_types, rules)
    return _checked(change(set_defaults(decode(text, known), known, rules)), rules)


def default_config(
    args_types: ArgsTypes, rules: Rules = DEFAULT_RULES, change: Change = unchanged, *, plugins: Iterable[str] = ()
) -> KubeSchedulerConfiguration:
    """Return the effective configuration that applies without a file: the default profile, with these `plugins` at all
    their extension points besides. Raises ConfigError for what `change` made."""
    multi_point = PluginSet(enabled=tuple(PluginRef(name=name) for name in plugins))
    profile = KubeSchedulerProfile(plugins=Plugins(multi_point=multi_point))
    config = KubeSchedulerConfiguration(profiles=(profile,))
    return _checked(change(set_defaults(config, _known(args_types, rules), rules)), rules)


def _known(args_types: ArgsTypes, rules: Rules) -> ArgsTypes:
    return {name: each for name, each in args_types.items() if each.are_in(rules)}


def _checked(config: KubeSchedulerConfiguration, rules: Rules) -> KubeSchedulerConfiguration:
    problems = [*validate(config, rules), *_check_fit_is_there(config)]
    config = _ignore_managed_resources(config)
    problems += validate_made(config, rules)
    if problems:
        raise ConfigError(problems)
    return _completed(config)


def _check_fit_is_there(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Check that NodeResourcesFit has arguments if extenders have resources ignored (scheduler.go, buildExtenders)."""
    if not config.ignored_extended_resources():
        return
    for index, profile in enumerate(config.profiles):
        if profile.args(_FIT) is None:
            detail = "can't find NodeResourcesFitArgs in plugin config: an extender's ignoredByScheduler needs them"
            yield Problem(f"profiles[{index}].pluginConfig", detail)


def _ignore_managed_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Replace the resources that NodeResourcesFit's arguments ignore by those of the extenders, if these list any."""
    ignored = config.ignored_extended_resources()
    if not ignored:
        return config

    def ignoring(each: PluginConfig) -> PluginConfig:
        if each.name != _FIT or not isinstance(each.args, PluginArgs):
            return each
        return each.model_copy(update={"args": each.args.model_copy(update={"ignored_resources": ignored})})

    profiles = tuple(
        profile.model_copy(update={"plugin_config": tuple(map(ignoring, profile.plugin_config))})
        for profile in config.profiles
    )
    return config.model_copy(update={"profiles": profiles})


def _completed(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    return config.model_copy(update={"profiles": tuple(map(_completed_profile, config.profiles))})


def _completed_profile(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Keep only the arguments of enabled plugins, sorted by name, as the framework does."""
    names = profile.plugins.enabled_names()
    used = [each for each in profile.plugin_config if each.name in names and each.args is not None]
    return profile.model_copy(update={"plugin_config": tuple(sorted(used, key=lambda each: each.name))})

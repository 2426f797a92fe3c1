"""Reads the configuration, discovers the plugins, and makes the profiles from both."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from extender_service.command.emulation import EmulationOptions
from extender_service.command.start_error import StartError
from extender_service.config.loading import Change, default_config, load_config, unchanged
from extender_service.config.problems import ConfigError
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.handle import Handle
from extender_service.framework.profile import Profile
from extender_service.framework.registry.discovery import PluginLoadError, discover_plugins
from extender_service.framework.registry.registry import Registry
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.types.core import Object
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.seams import Clock

log = logging.getLogger(__name__)


def setup_of_some_release(
    emulation: EmulationOptions, config: Path | None, plugins: Sequence[str], change: Change = unchanged
) -> "Setup":
    """Return the setup of the newest release that may come to decide and takes these options.

    Raises StartError for options that no release takes: users need not wait for an API server to learn that.
    """
    errors = []
    for minor in emulation.possible_minors:
        try:
            return Setup(config, plugins, rules=emulation.rules_for(minor), change=change)
        except StartError as error:
            errors.append(error)
    raise errors[0]


class Setup:
    """A configuration and the plugins that it can name: `plugins`, and those in tree.

    Without a configuration, the default profile runs, and the plugins that are named besides. The constructor raises
    StartError if either is invalid.
    """

    def __init__(
        self,
        config: Path | None,
        plugins: Sequence[str],
        *,
        rules: Rules = DEFAULT_RULES,
        change: Change = unchanged,
    ) -> None:
        """`rules` are those of the release to follow. `change` is what the command line says instead of the
        configuration."""
        self._file = config
        self.rules = rules
        try:
            discovered = discover_plugins(plugins)
            self._registry = Registry([*IN_TREE, *discovered.plugins], discovered.broken, rules)
            self.plugins = discovered.plugins
        except PluginLoadError as error:
            raise StartError(f"--plugin: {error}") from error
        try:
            names = [plugin.name for plugin in discovered.named]
            read = partial(load_config, config) if config else partial(default_config, plugins=names)
            self.config: KubeSchedulerConfiguration = read(ARGS_TYPES, rules, change)
            self._registry.check(self.config)
        except ConfigError as error:
            raise self.refused(error) from error
        if self.config.client_connection.qps > 0 and not self.config.client_connection.burst:
            # Only a flag can set 0 (client-go's kubernetes/clientset.go).
            raise StartError("--kube-api-burst: must be more than 0, unless --kube-api-qps is 0 or less")
        self._broken = discovered.broken
        self._named = discovered.named

    @property
    def reads(self) -> frozenset[type[Object]]:
        """The types of objects, besides nodes and pods, that the enabled plugins and preemption read."""
        return self._registry.reads(self.config) | {PodDisruptionBudget}

    def service_limit(self, clock: Clock) -> TokenBucket | None:
        """Make what limits the requests of one client of `serve`; None where the configuration sets no rate.

        kube-scheduler's defaults, 50 a second and 100 at once, count only beside a value that is set.
        """
        connection = self.config.client_connection
        return self.scheduler_limit(clock) if connection.model_fields_set & {"qps", "burst"} else None

    def scheduler_limit(self, clock: Clock) -> TokenBucket | None:
        """Make what limits the requests of one client of `schedule`, as kube-scheduler does; None if qps is negative.

        kube-scheduler's defaults count where the configuration sets nothing.
        """
        connection = self.config.client_connection
        if connection.qps < 0:
            return None
        # 0, which only flags can set, stands for client-go's own defaults (client-go's rest/config.go).
        return TokenBucket(connection.qps or 5.0, connection.burst or 10, clock=clock)

    def profiles(self, handle: Handle) -> dict[str, Profile]:
        """Return the profiles by scheduler name, whose plugins share the handle. Raises StartError.

        Logs what `warn_of_plugins` does.
        """
        self.warn_of_plugins()
        try:
            return self._registry.profiles(self.config, handle)
        except ConfigError as error:
            raise self.refused(error) from error

    def warn_of_plugins(self) -> None:
        """Log which plugins of installed packages are not loaded, and which of those that are named no profile enables:
        their authors would think that they decide."""
        for each in self._broken:
            log.warning("a plugin of an installed package is not loaded: %s", each)
        try:
            enabled = self._registry.enabled(self.config)
        except ConfigError:
            return  # `profiles` says what is wrong
        for plugin in self._named:
            if plugin.name not in enabled:
                fields = {"plugin": plugin.name, "class": f"{plugin.__module__}:{plugin.__qualname__}"}
                log.warning("a plugin of --plugin does nothing, as no profile of --config enables it", extra=fields)

    def refused(self, error: ConfigError) -> StartError:
        """Return the configuration's problems, one a line, each with the file. Without one, options caused them."""
        if self._file is None:
            return StartError(str(error))
        return StartError(f"--config: {ConfigError(error.problems, str(self._file))}")

"""Plugins by name, and the profiles that a configuration makes of them."""

import logging
from collections.abc import Collection, Iterable, Mapping

from extender_service.config.profiles import EffectivePlugins, effective_profiles
from extender_service.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from extender_service.framework.interface import Handle, Plugin, extension_points
from extender_service.framework.profile import Profile

log = logging.getLogger(__name__)


class Registry:
    """The plugins that a configuration can name.

    `absent` are those that kube-scheduler has and this service has not (yet), with their extension points: a
    configuration may name them, and they are left out with a warning.
    """

    def __init__(self, plugins: Iterable[type[Plugin]], absent: Mapping[str, Collection[str]]) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            if plugin.name in self._plugins:
                raise ValueError(f"two plugins have the name {plugin.name}")
            self._plugins[plugin.name] = plugin
        self._points_of = {**absent, **{name: extension_points(plugin) for name, plugin in self._plugins.items()}}

    def profiles(self, config: KubeSchedulerConfiguration, handle: Handle) -> dict[str, Profile]:
        """Make the plugins of every profile, by scheduler name, in the order of the configuration.

        Raises ConfigError for what kube-scheduler would not start with.
        """
        effective = effective_profiles(config, self._points_of)
        return {
            profile.scheduler_name: self._profile(profile, effective[profile.scheduler_name], handle)
            for profile in config.profiles
        }

    def _profile(self, profile: KubeSchedulerProfile, effective: EffectivePlugins, handle: Handle) -> Profile:
        enabled = {plugin.name for plugins in effective.values() for plugin in plugins}
        absent = sorted(enabled - self._plugins.keys())
        if absent:
            log.warning(
                "plugins that this version does not have are left out",
                extra={"profile": profile.scheduler_name, "plugins": " ".join(absent)},
            )
        # One instance serves all of a plugin's extension points.
        made = {name: plugin(profile.args(name), handle) for name, plugin in self._plugins.items() if name in enabled}
        return Profile(
            profile.scheduler_name,
            {
                point: [(made[plugin.name], plugin.weight) for plugin in plugins if plugin.name in made]
                for point, plugins in effective.items()
            },
        )

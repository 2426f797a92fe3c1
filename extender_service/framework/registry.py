"""Plugins by name, and the profiles that a configuration makes of them."""

import logging
from collections.abc import Callable, Iterable, Mapping

from extender_service.config.profiles import PluginRef, effective_plugins
from extender_service.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from extender_service.framework.interface import Handle, Plugin, extension_points
from extender_service.framework.profile import Profile

log = logging.getLogger(__name__)


class Registry:
    """The plugins that a configuration can name."""

    def __init__(self, plugins: Iterable[type[Plugin]]) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        for plugin in plugins:
            if plugin.name in self._plugins:
                raise ValueError(f"two plugins have the name {plugin.name}")
            self._plugins[plugin.name] = plugin

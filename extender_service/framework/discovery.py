"""Finds the plugins that users bring: by entry points of installed packages, or by name."""

import importlib
import inspect
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from extender_service.framework.interface import Plugin, extension_points

GROUP = "extender_service.plugins"


class PluginLoadError(ValueError):
    """A plugin that cannot be loaded; one line that names it and says why."""


def discover_plugins(references: Iterable[str]) -> list[type[Plugin]]:
    """Return the plugins of the entry point group `extender_service.plugins` and those named as package.module:Class.

    A plugin that is found both ways counts once. Raises PluginLoadError.
    """
    found: dict[type[Plugin], None] = {}
    for entry_point in entry_points(group=GROUP):
        origin = f"entry point {entry_point.name} = {entry_point.value}"
        try:
            found[_checked(entry_point.load(), origin)] = None
        except (ImportError, AttributeError) as error:
            raise PluginLoadError(f"{origin}: {error}") from error
    for reference in references:
        found[_load(reference)] = None
    return list(found)


def _load(reference: str) -> type[Plugin]:
    module_name, colon, class_name = reference.partition(":")
    if not colon or not module_name or not class_name:
        raise PluginLoadError(f"{reference!r} is not a plugin: give package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PluginLoadError(f"{reference}: {error}; is it installed, or its folder on PYTHONPATH?") from error
    if not hasattr(module, class_name):
        raise PluginLoadError(f"{reference}: module {module_name} has no {class_name}")
    return _checked(getattr(module, class_name), reference)


def _checked(plugin: Any, origin: str) -> type[Plugin]:
    if not inspect.isclass(plugin) or not issubclass(plugin, Plugin):
        raise PluginLoadError(f"{origin} is not a plugin: it must be a class that extends an extension point")
    if not isinstance(getattr(plugin, "name", None), str):
        raise PluginLoadError(f"{origin} has no name: set `name` to the one that configurations are to use")
    if not extension_points(plugin):
        raise PluginLoadError(f"{origin} serves no extension point")
    if inspect.isabstract(plugin):
        missing = ", ".join(sorted(plugin.__abstractmethods__))
        raise PluginLoadError(f"{origin} is not complete: it lacks {missing}")
    return plugin

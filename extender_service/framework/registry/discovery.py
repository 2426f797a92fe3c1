"""Finds the plugins that users bring: by entry points of installed packages, or by name."""

import importlib
import inspect
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from extender_service.framework.interface import EXTENSION_POINTS, Plugin, extension_points
from extender_service.framework.per_node import FilterNode, ScoreNode

GROUP = "extender_service.plugins"


class PluginLoadError(ValueError):
    """A plugin that cannot be loaded; one line that names it and says why."""


class Discovered(NamedTuple):
    """The plugins that were found, a line for each entry point without a usable plugin, which says why, and those of
    the plugins that were named."""

    plugins: list[type[Plugin]]
    broken: list[str]
    named: list[type[Plugin]]


def discover_plugins(references: Iterable[str]) -> Discovered:
    """Find the plugins of the entry point group `extender_service.plugins` and those named as package.module:Class.

    A plugin that is found both ways counts once. A broken entry point raises no error, as the configuration may not use
    its plugin. Raises PluginLoadError for a reference that cannot be loaded.
    """
    found: dict[type[Plugin], None] = {}
    broken: list[str] = []
    for entry_point in entry_points(group=GROUP):
        try:
            found[_load_entry_point(entry_point)] = None
        except PluginLoadError as error:
            broken.append(str(error))
    named = dict.fromkeys(_load(reference) for reference in references)
    return Discovered(list(found | named), broken, list(named))


def in_one_line(error: Exception) -> str:
    """Return the type and the text of what a user's code has raised."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _load_entry_point(entry_point: EntryPoint) -> type[Plugin]:
    origin = f"entry point {entry_point.name} = {entry_point.value}"
    if entry_point.dist is not None:
        origin += f" of the package {entry_point.dist.name} {entry_point.dist.version}"
    try:
        plugin = entry_point.load()
    except Exception as error:
        # This runs the module, which may raise anything; the error has to name its package.
        raise PluginLoadError(f"{origin}: {in_one_line(error)}") from error
    return _checked(plugin, origin)


def _load(reference: str) -> type[Plugin]:
    module_name, colon, class_name = reference.partition(":")
    if not colon or not module_name or not class_name:
        raise PluginLoadError(f"{reference!r} is not a plugin: give package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PluginLoadError(f"{reference}: {error}; is it installed, or its folder on PYTHONPATH?") from error
    except Exception as error:
        raise PluginLoadError(f"{reference}: {in_one_line(error)}") from error
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
    for name in _methods_not_awaited(plugin):
        if inspect.iscoroutinefunction(getattr(plugin, name)):
            raise PluginLoadError(f"{origin}: {name} must not be `async def`")
    return plugin


def _methods_not_awaited(plugin: type[Plugin]) -> Iterator[str]:
    """Iterate over the methods of the plugin's base classes that the service does not await.

    A coroutine that is not awaited does nothing. Whether `pre_bind` and `bind` return an awaitable is checked at the
    call: under a decorator, they may without being `async def`.
    """
    bases: list[type[Plugin]] = [Plugin, FilterNode, ScoreNode, *EXTENSION_POINTS.values()]
    for base in bases:
        if issubclass(plugin, base):
            for name, method in vars(base).items():
                if inspect.isfunction(method) and not inspect.iscoroutinefunction(method):
                    yield name

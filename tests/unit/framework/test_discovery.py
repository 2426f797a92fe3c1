import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from extender_service.framework import discovery
from extender_service.framework.discovery import PluginLoadError, discover_plugins

MODULE = """
from extender_service.framework.interface import Filter, Plugin

class Good(Filter):
    name = "Good"
    def filter(self, state, pod, nodes): return None

class Nameless(Filter):
    def filter(self, state, pod, nodes): return None

class Incomplete(Filter):
    name = "Incomplete"

class Idle(Plugin):
    name = "Idle"

number = 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "users_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "users_plugins"
    sys.modules.pop("users_plugins", None)


def test_a_plugin_is_loaded_by_module_and_class(module: str) -> None:
    assert [plugin.name for plugin in discover_plugins([f"{module}:Good"])] == ["Good"]


def test_a_plugin_of_an_installed_package_is_found_once_even_if_it_is_also_named(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry_point = EntryPoint("good", f"{module}:Good", discovery.GROUP)
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints([entry_point]))
    assert [plugin.name for plugin in discover_plugins([f"{module}:Good"])] == ["Good"]


def test_a_broken_entry_point_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_point = EntryPoint("gone", "no_such_module:Plugin", discovery.GROUP)
    monkeypatch.setattr(discovery, "entry_points", lambda group: EntryPoints([entry_point]))
    with pytest.raises(PluginLoadError, match="entry point gone = no_such_module:Plugin: No module named"):
        discover_plugins([])


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("Good", "'Good' is not a plugin: give package.module:Class"),
        ("no_such_module:Good", "No module named 'no_such_module'"),
        ("users_plugins:Missing", "module users_plugins has no Missing"),
        ("users_plugins:number", "users_plugins:number is not a plugin: it must be a class"),
        ("users_plugins:Nameless", "users_plugins:Nameless has no name"),
        ("users_plugins:Incomplete", "users_plugins:Incomplete is not complete: it lacks filter"),
        ("users_plugins:Idle", "users_plugins:Idle serves no extension point"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said_in_one_line(module: str, reference: str, problem: str) -> None:
    with pytest.raises(PluginLoadError, match=re.escape(problem)) as error:
        discover_plugins([reference])
    assert "\n" not in str(error.value)

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender_service.framework.registry.discovery import PluginLoadError, discover_plugins
from tests.support.installed_package import install

MODULE = """
import functools
from extender_service.framework.interface import Bind, Filter, Plugin, PostBind, PreBind, Reserve
from extender_service.framework.per_node import FilterNode, ScoreNode

class Good(Filter):
    name = "Good"
    def filter(self, state, pod, nodes): return None

class Nameless(Filter):
    def filter(self, state, pod, nodes): return None

class Incomplete(Filter):
    name = "Incomplete"

class Idle(Plugin):
    name = "Idle"

class Awaited(PostBind):
    name = "Awaited"
    async def post_bind(self, state, pod, node_name): pass

class AwaitedUnreserve(Reserve):
    name = "AwaitedUnreserve"
    def reserve(self, state, pod, node_name): return None
    async def unreserve(self, state, pod, node_name): pass

class AwaitedHint(Good):
    name = "AwaitedHint"
    async def queueing_hint(self, event, pod, old, new): return None

class AwaitedFilterNode(FilterNode):
    name = "AwaitedFilterNode"
    async def filter_node(self, state, pod, node): return None

class AwaitedScoreNode(ScoreNode):
    name = "AwaitedScoreNode"
    async def score_node(self, state, pod, node): return 0

class Binds(Bind, PreBind):
    name = "Binds"
    async def pre_bind(self, state, pod, node_name): return None
    async def bind(self, state, pod, node_name): return None

def traced(method):
    @functools.wraps(method)
    def wrapper(*args): return method(*args)
    return wrapper

class Decorated(Binds):
    name = "Decorated"
    pre_bind = traced(Binds.pre_bind)
    bind = functools.partialmethod(Binds.bind)

number = 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "users_plugins.py").write_text(MODULE)
    (tmp_path / "failing_plugins.py").write_text("raise RuntimeError('no GPU\\n here')\n")
    (tmp_path / "garbled_plugins.py").write_text("class\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "users_plugins"
    sys.modules.pop("users_plugins", None)


def test_a_plugin_is_loaded_by_module_and_class(module: str) -> None:
    assert [plugin.name for plugin in discover_plugins([f"{module}:Good"]).plugins] == ["Good"]


@pytest.mark.parametrize("name", ["Binds", "Decorated"])
def test_a_plugin_whose_pre_bind_and_bind_return_awaitables_is_loaded(module: str, name: str) -> None:
    assert [plugin.name for plugin in discover_plugins([f"{module}:{name}"]).plugins] == [name]


def test_a_plugin_of_an_installed_package_is_found_once_even_if_it_is_also_named(module: str, tmp_path: Path) -> None:
    install(tmp_path, "sample-plugins", good=f"{module}:Good")
    assert [plugin.name for plugin in discover_plugins([]).plugins] == ["Good"]
    assert [plugin.name for plugin in discover_plugins([f"{module}:Good"]).plugins] == ["Good"]


def test_those_that_are_named_are_told_from_those_of_packages(module: str, tmp_path: Path) -> None:
    install(tmp_path, "sample-plugins", good=f"{module}:Good")
    found = discover_plugins([f"{module}:Binds", f"{module}:Binds"])
    assert [plugin.name for plugin in found.plugins] == ["Good", "Binds"]
    assert [plugin.name for plugin in found.named] == ["Binds"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:Plugin", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("users_plugins:Missing", "AttributeError: module 'users_plugins' has no attribute 'Missing'"),
        ("failing_plugins:Plugin", "RuntimeError: no GPU here"),
        ("users_plugins:Nameless", "has no name"),
    ],
)
def test_a_broken_entry_point_is_named_by_its_package_and_keeps_no_other_plugin_away(
    module: str, tmp_path: Path, value: str, reason: str
) -> None:
    install(tmp_path, "sample-plugins", bad=value, good=f"{module}:Good")
    plugins, [broken], _ = discover_plugins([])
    assert [plugin.name for plugin in plugins] == ["Good"]
    assert broken.startswith(f"entry point bad = {value} of the package sample-plugins 1.2")
    assert reason in broken
    assert "\n" not in broken


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("Good", "'Good' is not a plugin: give package.module:Class"),
        ("no_such_module:Good", "No module named 'no_such_module'"),
        ("failing_plugins:Plugin", "failing_plugins:Plugin: RuntimeError: no GPU here"),
        ("garbled_plugins:Plugin", "garbled_plugins:Plugin: SyntaxError: invalid syntax (garbled_plugins.py, line 1)"),
        ("users_plugins:Missing", "module users_plugins has no Missing"),
        ("users_plugins:number", "users_plugins:number is not a plugin: it must be a class"),
        ("users_plugins:Nameless", "users_plugins:Nameless has no name"),
        ("users_plugins:Incomplete", "users_plugins:Incomplete is not complete: it lacks filter"),
        ("users_plugins:Idle", "users_plugins:Idle serves no extension point"),
        ("users_plugins:Awaited", "users_plugins:Awaited: post_bind must not be `async def`"),
        ("users_plugins:AwaitedUnreserve", "users_plugins:AwaitedUnreserve: unreserve must not be `async def`"),
        ("users_plugins:AwaitedHint", "users_plugins:AwaitedHint: queueing_hint must not be `async def`"),
        ("users_plugins:AwaitedFilterNode", "users_plugins:AwaitedFilterNode: filter_node must not be `async def`"),
        ("users_plugins:AwaitedScoreNode", "users_plugins:AwaitedScoreNode: score_node must not be `async def`"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said_in_one_line(module: str, reference: str, problem: str) -> None:
    with pytest.raises(PluginLoadError, match=re.escape(problem)) as error:
        discover_plugins([reference])
    assert "\n" not in str(error.value)

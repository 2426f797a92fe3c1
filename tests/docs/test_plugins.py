"""docs/plugins.md says of each plugin what kube-scheduler v1.31.1 says, and of others what the code says."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from extender_service.config.defaulting import default_plugins
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.config.rules import DEFAULT_RULES, rules_of
from extender_service.framework.interface import EXTENSION_POINTS, extension_points
from extender_service.plugins.in_tree import IN_TREE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
[REFERENCE] = json.loads((ROOT / "tests" / "unit" / "config" / "golden" / "extension_points.json").read_text())
# The reference is v1.31.1: plugins that came later have the points that they have here.
LATER = {plugin.name: extension_points(plugin) for plugin in IN_TREE if not plugin.points_in(rules_of(31))}
POINTS_OF = {plugin.name: extension_points(plugin) for plugin in IN_TREE} | REFERENCE | LATER
ARGS_TYPES = {plugin.name: plugin.args_type for plugin in IN_TREE}
WEIGHTS = {plugin.name: plugin.weight or 1 for plugin in default_plugins(DEFAULT_RULES)}


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose first column is called so."""
    [text] = re.findall(rf"^\| {heading} \|.*\n\|[ |-]*\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()]


PLUGINS = {name: rest for name, *rest in table("plugin")}


def test_all_plugins_are_there_in_the_order_in_which_they_run() -> None:
    by_default = [plugin.name for plugin in default_plugins(DEFAULT_RULES)]
    assert list(PLUGINS) == [*by_default, *sorted({plugin.name for plugin in IN_TREE} - set(by_default))]


@pytest.mark.parametrize("name", PLUGINS)
def test_what_is_said_of_a_plugin_is_so(name: str) -> None:
    _, points, weight, args = PLUGINS[name]
    assert points == ", ".join(point for point in EXTENSION_POINTS if point in POINTS_OF[name])
    assert weight == (str(WEIGHTS[name]) if name in WEIGHTS and "score" in POINTS_OF[name] else "")
    args_type = ARGS_TYPES[name]
    fields = args_type.model_fields.values() if args_type is not None and issubclass(args_type, BaseModel) else ()
    names = [str(field.alias) for field in fields if field.alias not in ("apiVersion", "kind")]
    assert args == ", ".join(f"`{field}`" for field in names)


def test_each_release_that_changes_the_extension_points_of_a_plugin_is_named() -> None:
    for minor in range(OLDEST_MINOR + 1, NEWEST_MINOR + 1):
        before, after = rules_of(minor - 1), rules_of(minor)
        release = rf"\b{re.escape(version_of(minor))}\b|up to {re.escape(version_of(minor - 1))}\b"
        rows = [plugins for when, plugins, what in table("releases") if re.search(release, f"{when} {what}")]
        named = {name for plugins in rows for name in plugins.split(", ")}
        assert {plugin.name for plugin in IN_TREE if plugin.points_in(before) != plugin.points_in(after)} <= named


@pytest.mark.parametrize("heading", ["predicate", "priority"])
def test_old_names_lead_to_plugins_that_exist(heading: str) -> None:
    for _, target in table(heading):
        named = target if target.startswith("none") else target.partition(":")[0]
        assert set(re.findall(r"\b[A-Z]\w+", named)) <= PLUGINS.keys()

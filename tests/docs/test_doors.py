"""The guide, README and examples import from the two doors alone; the guide lists every name of plugin_api."""

import ast
import re
from pathlib import Path

import pytest

from extender_service import plugin_api, simulation, testing
from extender_service.framework.interface import Filter
from extender_service.testing import Trial, make_node, make_pod

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "writing-plugins.md").read_text()
DOORS = {
    "extender_service.plugin_api": plugin_api.__all__,
    "extender_service.simulation": simulation.__all__,
    "extender_service.testing": testing.__all__,
}
# What the reader of the guide runs and does not deploy.
SCRIPTS = {"compare.py"}

CODE = {
    **dict(re.findall(r"^```python file=(\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)),
    **{str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "examples").rglob("*.py")},
}
[README_EXAMPLE] = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def imports(code: str) -> list[tuple[str, str]]:
    """The modules of the package that code imports from, each with a name."""
    found = []
    for statement in ast.walk(ast.parse(code)):
        if isinstance(statement, ast.Import):
            found += [(name.name, "") for name in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            found += [(str(statement.module), name.name) for name in statement.names]
    return [(module, name) for module, name in found if module.partition(".")[0] == "extender_service"]


def is_test(file: str) -> bool:
    name = Path(file).name
    return name.startswith("test_") or name == "conftest.py" or name in SCRIPTS


def test_the_guide_and_the_examples_have_code() -> None:
    assert {"my_plugins/driver_version.py", "compare.py", "examples/plugins/gang.py"} <= CODE.keys()


@pytest.mark.parametrize("file", CODE)
def test_code_imports_from_the_doors_alone(file: str) -> None:
    for module, name in imports(CODE[file]):
        assert name in DOORS.get(module, ()), f"{name} of {module}"
        assert is_test(file) or module != "extender_service.testing", "testing is for tests alone"


def test_the_guide_lists_every_name_of_plugin_api() -> None:
    [table] = re.findall(r"^\| for \| names \|\n\| --- \| --- \|\n((?:\|.*\n)+)", GUIDE, re.MULTILINE)
    listed = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[2])]
    assert sorted(listed) == sorted(plugin_api.__all__)


def test_the_plugin_in_readme_works() -> None:
    assert all(module == "extender_service.plugin_api" for module, _ in imports(README_EXAMPLE))
    names: dict[str, type[Filter]] = {}
    exec(README_EXAMPLE, names)
    trial = Trial([make_node("old", labels={"example.com/draining": ""}), make_node("new")])
    plugin = names["NotDraining"](None, trial.handle)
    assert trial.refusals(plugin, make_pod("web")) == {"old": "node(s) were draining"}

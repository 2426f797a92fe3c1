"""One name, one thing: no public class, function or module of the package has the name of another."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "extender_service"

# Kubernetes itself has one name for two things.
KUBERNETES = {"NodeAffinity"}
# A part is called the same in each package.
PARTS = {"plugin", "filtering", "scoring", "hints", "types", "args", "verdicts", "table", "__init__"}


def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def twice(named: list[tuple[str, Path]]) -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in named:
        places[name].append(str(path.relative_to(PACKAGE)))
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_two_modules_have_one_name() -> None:
    assert twice([(path.stem, path) for path in modules() if path.stem not in PARTS]) == {}


def test_no_two_classes_or_functions_have_one_name() -> None:
    defined = [
        (node.name, path)
        for path, module in modules().items()
        for node in module.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and node.name not in KUBERNETES
    ]
    assert twice(defined) == {}


def test_no_two_things_in_the_tests_support_have_one_name() -> None:
    support = {path: ast.parse(path.read_text()) for path in (PACKAGE.parent / "tests" / "support").glob("*.py")}
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, module in support.items():
        for node in module.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].append(path.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}

"""docs/architecture.md has the rooms and layers of the contracts in pyproject.toml, and names modules that exist."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
[MAP] = re.findall(r"means \"may import\":\n\n```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PATTERNS = {"extender_service/ROOM/MODULE.py", "tests/unit/ROOM/test_MODULE.py"}

Layers = list[set[str]]


def layers_of_contracts() -> Iterator[tuple[str, Layers]]:
    """The layers of each package that has any, the highest first, by its name within extender_service."""
    for contract in CONTRACTS:
        if contract["type"] == "layers":
            [container] = contract["containers"]
            package = container.removeprefix("extender_service").lstrip(".")
            yield package, [set(layer.split(" | ")) for layer in contract["layers"]]


def layers_of_map() -> Iterator[tuple[str, Layers]]:
    """The same of the map; a room whose modules it does not list has none."""
    texts: dict[str, str] = {}
    package = ""
    for line in MAP.splitlines():
        text = re.sub(r" +\(.*\)$", "", line)
        if found := re.fullmatch(r"(\w+)(?: {2,}(.*))?", text):
            package, text = found[1], found[2] or ""
        elif found := re.fullmatch(r" +(\w+): (.*)", text):
            package, text = f"{package.partition('.')[0]}.{found[1]}", found[2]
        elif not text.startswith(" "):
            continue  # modules beside the rooms
        texts[package] = f"{texts.get(package, '')} {text.strip()}".strip()
    for package, text in texts.items():
        yield package, [set(layer.split(", ")) for layer in text.split(" > ")] if text else []


CONTRACTED = dict(layers_of_contracts())
MAPPED = dict(layers_of_map())


@pytest.mark.parametrize("package", [package for package in CONTRACTED if package])
def test_the_layers_of_a_room_are_those_of_its_contract(package: str) -> None:
    assert MAPPED[package] == CONTRACTED[package]


def test_the_rooms_are_in_the_order_of_their_contract() -> None:
    rooms = [package for package in MAPPED if "." not in package]
    for layer in CONTRACTED[""][:-1]:
        there = layer - {"plugin_api"}  # a module, beside a room
        assert set(rooms[: len(there)]) == there
        rooms = rooms[len(there) :]
    assert not rooms


def test_each_room_has_a_row_in_the_table() -> None:
    rows = {name.rstrip("/").removesuffix(".py") for name in re.findall(r"^\| `([\w./]+)` \|", PAGE, re.MULTILINE)}
    assert rows == {name for layer in CONTRACTED[""] for name in layer}


def test_each_module_that_is_named_is_there() -> None:
    paths = [path for part in ("extender_service", "tests") for path in (ROOT / part).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE)) - PATTERNS
    assert named
    assert [name for name in sorted(named) if not any(path.match(name) for path in paths)] == []

"""Which defects a world reaches: those whose changed statements run in it. With any other, its history stays the same.

So one world without any defect shows for which ones that seed is worth a world.
"""

import ast
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tests.worlds.defects.changed_code import change_module
from tests.worlds.defects.planted import Change

# The names of the defects that this process has reached. The functions with marks add to it.
REACHED: Final[set[str]] = set()
_IMPORT: Final = "from tests.worlds.defects.reached import REACHED"


def mark(changes: Mapping[str, Sequence[Change]]) -> None:
    """Let the loaded modules note which defects they reach. `changes` are those of each defect, by its name."""
    marks: dict[str, dict[int, set[str]]] = {}
    sources: dict[str, str] = {}
    for name, of in changes.items():
        for module, old, new in of:
            sources[module] = old
            for line in _changed_lines(old.splitlines(), new.splitlines()):
                marks.setdefault(module, {}).setdefault(line, set()).add(name)
    for module, old in sources.items():
        change_module(module, old, with_marks(old, marks[module]))


def with_marks(source: str, marks: Mapping[int, Collection[str]]) -> str:
    """Return a source that notes these names before it runs the statements on these lines."""
    tree = ast.parse(source)
    before: dict[ast.stmt, set[str]] = {}
    for line, names in marks.items():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            if function.lineno <= line <= (function.end_lineno or 0):
                before.setdefault(_statement(function, line), set()).update(names)
    for node in [*ast.walk(tree)]:
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, [each for one in statements for each in (*_marks(before.get(one, ())), one)])
    return f"{ast.unparse(tree)}\n{_IMPORT}\n"


def _changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines that differ, and of the lines before and behind those that are new."""
    for tag, begin, end, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "insert":
            yield from (number for number in (_text_before(old, begin), _text_behind(old, begin)) if number)
        elif tag != "equal":
            yield from range(begin + 1, end + 1)


def _text_before(lines: Sequence[str], begin: int) -> int:
    return next((number for number in range(begin, 0, -1) if lines[number - 1].strip()), 0)


def _text_behind(lines: Sequence[str], begin: int) -> int:
    return next((number for number in range(begin + 1, len(lines) + 1) if lines[number - 1].strip()), 0)


def _statement(function: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> ast.stmt:
    """Return the innermost statement of a function on a line: its first one for a line of the head."""
    inner = [each for each in ast.walk(function) if isinstance(each, ast.stmt) and each is not function]
    on_it = [each for each in inner if each.lineno <= line <= (each.end_lineno or 0)]
    return min(on_it, key=lambda each: (each.end_lineno or 0) - each.lineno, default=function.body[0])


def _marks(names: Collection[str]) -> Iterator[ast.stmt]:
    for name in sorted(names):
        yield from ast.parse(f"REACHED.add({name!r})").body

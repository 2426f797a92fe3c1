"""A defect in a running process: the functions of loaded modules get the code that a patched source has.

So a world with a defect takes no longer than one without: a process that has loaded the product is forked.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, Final

_DEFINITIONS: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def change_module(name: str, old: str, new: str) -> None:
    """Let a loaded module run the new source instead of the old one.

    The sources may differ in bodies of functions, and the new one may have more imports and variables. Raises
    ValueError if no function differs, or one is new.
    """
    module = sys.modules[name]
    before = {ast.dump(statement) for statement in ast.parse(old).body}
    for statement in ast.parse(new).body:
        if ast.dump(statement) not in before and not isinstance(
            statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            exec(compile(ast.Module([statement], []), name, "exec"), vars(module))
    changed = changed_functions(name, old, new)
    for qualname, code in changed.items():
        _function(vars(module), qualname).__code__ = code
    if not changed:
        raise ValueError(f"no function of {name} is changed")


def changed_functions(name: str, old: str, new: str) -> Mapping[str, CodeType]:
    """Return the new code of the functions and methods of a module that differ, by their qualified names."""
    codes = _functions(old, name)
    return {
        qualname: code
        for qualname, code in _functions(new, name).items()
        if qualname not in codes or _content(code) != _content(codes[qualname])
    }


def _functions(source: str, name: str) -> Mapping[str, CodeType]:
    """Return the code of the functions and methods of a source, by their qualified names."""
    return {code.co_qualname: code for code in _nested(compile(source, name, "exec"))}


def _nested(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            # The body of a class has no locals of its own; what is nested in a function comes with it.
            if const.co_flags & inspect.CO_NEWLOCALS:
                yield const
            else:
                yield from _nested(const)


def _content(code: CodeType) -> Any:
    """Return what a code does, without its place in the file."""
    consts = [_content(const) if isinstance(const, CodeType) else (type(const), const) for const in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts


def _function(names: Mapping[str, Any], qualname: str) -> FunctionType:
    found: Any = None
    for part in qualname.split("."):
        found = names.get(part)
        if found is None:
            raise ValueError(f"{qualname} is not there")
        names = getattr(found, "__dict__", {})
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    found = getattr(found, "__wrapped__", found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{qualname} is no function")
    return found

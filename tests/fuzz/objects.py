"""Arguments of verbs from nothing but their types: any field may be there, with values that fit it more or less."""

import functools
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.extender_api import Args, ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs
from tests.fuzz.mutation import QUANTITIES, TEXTS
from tests.fuzz.requests import Verb

TYPES: dict[Verb, type[Args]] = {
    "filter": ExtenderArgs,
    "prioritize": ExtenderArgs,
    "preempt": ExtenderPreemptionArgs,
    "bind": ExtenderBindingArgs,
}

_INTEGERS = st.sampled_from((0, 1, -1, 2, 10, 100, 8080, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64))
_SCALARS = st.none() | st.booleans() | _INTEGERS | st.floats() | st.sampled_from(TEXTS)
_ODD = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2))
_MOST_FIELDS = 4


@st.composite
def arguments(draw: st.DrawFn, verb: Verb, names: tuple[str, ...]) -> Any:
    """Arguments as plain data; `names` are of what is there: nodes, pods, labels, resources."""
    args = draw(_values(TYPES[verb], names))
    if isinstance(args, dict) and verb != "bind":
        # Without a pod, a verb looks at nothing else.
        args["Pod"] = draw(_values(Pod, names))
    return args


@functools.cache
def _values(python_type: type, names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return _of_kind(inspect.type_info(python_type), names)


def _of_kind(kind: inspect.Type, names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Values of a type; one in a while is of another."""
    return st.integers(0, 30).flatmap(lambda roll: _ODD if roll == 30 else _fitting(kind, names))


def _fitting(kind: inspect.Type, names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    # Some that never came before: what is kept for each would show as memory.
    texts = st.sampled_from((*names, *TEXTS)) | st.integers(0, 2**60).map("new-{}".format)
    match kind:
        case inspect.StructType():
            return _objects(kind, names)
        case inspect.RawType():
            return _values(Node, names)
        case inspect.DictType():
            return st.dictionaries(texts, st.deferred(lambda: _of_kind(kind.value_type, names)), max_size=3)
        case inspect.ListType() | inspect.VarTupleType():
            return st.lists(st.deferred(lambda: _of_kind(kind.item_type, names)), max_size=3)
        case inspect.UnionType() if any(isinstance(member, inspect.FloatType) for member in kind.types):
            return st.sampled_from(QUANTITIES) | st.floats() | _INTEGERS
        case inspect.UnionType():
            return _of_kind(kind.types[0], names)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return _INTEGERS
    return texts


@st.composite
def _objects(draw: st.DrawFn, kind: inspect.StructType, names: tuple[str, ...]) -> Any:
    fields = draw(st.lists(st.sampled_from(kind.fields), max_size=_MOST_FIELDS, unique_by=id)) if kind.fields else []
    return {field.encode_name: draw(_of_kind(field.type, names)) for field in fields}

"""Each field of the objects that scheduling is about is decoded, or there is a reason why not."""

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from msgspec import inspect

from extender_service.kube.types.core import Node
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.storage import STORAGE_KINDS
from tests.api_fields.__main__ import TABLE, fields_table
from tests.api_fields.kept import DECIDES_NOTHING, EXTENDED_RESOURCES_OF_CLAIMS, NO_PLUGIN_READS, NOT_JUDGED

# By Go struct and name in JSON: the struct that the field holds, and the packages that read the field.
STRUCTS: dict[str, dict[str, dict[str, object]]] = json.loads(TABLE.read_text())
DECODED: dict[str, type] = {
    "core/v1.Pod": PendingPod,
    "core/v1.Node": Node,
    **{
        f"{api_version.replace('.k8s.io', '') if '/' in api_version else 'core/v1'}.{kind}": struct
        for (api_version, kind), struct in STORAGE_KINDS.items()
    },
}
UNREAD = {
    (struct, name)
    for line in NO_PLUGIN_READS.replace("\n  ", " ").strip().splitlines()
    for struct, _, names in [line.partition(": ")]
    for name in names.split()
}


class NotDecoded(NamedTuple):
    path: str
    struct: str
    name: str


def kinds() -> list[str]:
    return [name for name, fields in STRUCTS.items() if {"apiVersion", "kind", "metadata"} <= fields.keys()]


def not_decoded(path: str, struct: str, ours: inspect.StructType) -> Iterator[NotDecoded]:
    """Yield the fields of a Go struct that our type does not have, and those of what it holds."""
    types = {field.encode_name: field.type for field in ours.fields}
    for name, field in STRUCTS[struct].items():
        if name not in types:
            yield NotDecoded(f"{path}.{name}", struct, name)
        elif inner := str(field.get("holds", "")):
            held = struct_in(types[name])
            assert held is not None, f"{path}.{name} holds {inner}"
            yield from not_decoded(f"{path}.{name}", inner, held)


def struct_in(held: inspect.Type) -> inspect.StructType | None:
    if isinstance(held, inspect.StructType):
        return held
    if isinstance(held, inspect.UnionType):
        return next((found for each in held.types if (found := struct_in(each))), None)
    return struct_in(held.item_type) if isinstance(held, inspect.VarTupleType) else None


def all_not_decoded() -> list[NotDecoded]:
    found = []
    for struct in kinds():
        kind = struct.rpartition(".")[2]
        if struct in DECODED:
            ours = inspect.type_info(DECODED[struct])
            assert isinstance(ours, inspect.StructType)
            found += list(not_decoded(kind, struct, ours))
        else:
            found.append(NotDecoded(kind, "", kind))
    return found


def decides_nothing(path: str) -> list[str]:
    return [pattern for pattern in DECIDES_NOTHING if fnmatchcase(path, pattern)]


FOUND = all_not_decoded()


def has_reason(field: NotDecoded) -> bool:
    kept = (field.struct, field.name) in UNREAD or field.path in NOT_JUDGED.keys() | EXTENDED_RESOURCES_OF_CLAIMS
    return kept or bool(decides_nothing(field.path))


def test_each_field_is_decoded_or_there_is_a_reason_why_not() -> None:
    assert [(each.path, readers(each)) for each in FOUND if not has_reason(each)] == []


def readers(field: NotDecoded) -> object:
    return STRUCTS.get(field.struct, {}).get(field.name, {}).get("read_by", [])


def test_no_code_of_kube_scheduler_reads_what_no_plugin_is_said_to_read() -> None:
    read = {
        f"{struct}.{name}": field["read_by"]
        for struct, name in UNREAD
        if struct in STRUCTS and "read_by" in (field := STRUCTS[struct].get(name, {}))
    }
    assert read == {}


def test_the_lists_hold_nothing_that_is_decoded_or_gone() -> None:
    paths = {each.path for each in FOUND}
    assert UNREAD - {(each.struct, each.name) for each in FOUND} == set()
    assert (NOT_JUDGED.keys() | EXTENDED_RESOURCES_OF_CLAIMS) - paths == set()
    assert DECIDES_NOTHING.keys() - {pattern for path in paths for pattern in decides_nothing(path)} == set()


def test_the_table_is_what_kubernetes_declares_and_kube_scheduler_reads(build_go: Callable[[Path], Path]) -> None:
    assert fields_table() == TABLE.read_text(), "run python -m tests.api_fields"

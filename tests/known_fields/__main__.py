"""Writes which fields the objects of a cluster file can have: python -m tests.known_fields

The names come from the JSON tags of Kubernetes' own Go types, whose modules the go command fetches.
"""

import json
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Collection, Iterable
from pathlib import Path

from extender_service.kube.parsing.known_fields import LIST, TABLE, struct_of
from extender_service.kube.parsing.manifests import KINDS

# The newest, and those from 1.29 on that had a field which is gone. A manifest of any of them is right.
VERSIONS = ("v0.29.0", "v0.35.0", "v0.36.0", "v0.37.2")
# What comes before a package's name in the path by which others import it.
PREFIXES = ("k8s.io/api/", "k8s.io/apimachinery/pkg/apis/")

# Fields by the name of their struct: name on the wire and Go type; an embedded struct has no name.
Structs = dict[str, list[tuple[str, str]]]

_IMPORT = re.compile(r'^\t(?:(\w+) )?"([\w./-]+)"$', re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:\w+ +)?([\w.*\[\]]+) +`(?:\w+:"[^"]*" )*json:"([\w-]*)(?:,[^"]*)?"', re.MULTILINE)
_STRUCT_TYPE = re.compile(r"(\[\])?\*?(?:(\w+)\.)?(\w+)")


def structs_of(source: str, package: str) -> Structs:
    """Return the structs that a Go file declares, under package.Name, with types named in the same way.

    `package` is the path of the file's package in its module. A list of a struct has [] before its name. A type that is
    neither a struct nor a list of one has an empty name.
    """
    packages = {"": package}
    for alias, path in _IMPORT.findall(source):
        for prefix in PREFIXES:
            if path.startswith(prefix):
                packages[alias or path.rpartition("/")[2]] = path.removeprefix(prefix)
    return {
        f"{package}.{name}": [(wire, _type_name(go_type, packages)) for go_type, wire in _FIELD.findall(body)]
        for name, body in _STRUCT.findall(source)
    }


def _type_name(go_type: str, packages: dict[str, str]) -> str:
    found = _STRUCT_TYPE.fullmatch(go_type)
    if found is None or (found[2] or "") not in packages:
        return ""
    return f"{found[1] or ''}{packages[found[2] or '']}.{found[3]}"


def fields_of(name: str, structs: Structs) -> dict[str, str]:
    """Return the fields of a struct, those of structs embedded in it among them, with the struct that each holds.

    What holds none that has fields of its own (text, numbers, maps, times, quantities) has an empty name.
    """
    fields: dict[str, str] = {}
    for wire, inner in structs.get(name, ()):
        if not wire:
            fields |= fields_of(inner, structs)
        elif wire != "-":
            has_fields = fields_of(inner.removeprefix("[]"), structs)
            fields[wire] = inner if has_fields else ""
    return fields


def table(versions: Iterable[Structs], roots: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the fields that these structs, and all that they hold, have in any of the versions."""
    found: dict[str, dict[str, str]] = {}
    for structs in versions:
        pending = deque(roots)
        seen: set[str] = set()
        while pending:
            name = pending.popleft()
            if name not in seen:
                seen.add(name)
                fields = fields_of(name, structs)
                found[name] = found.get(name, {}) | fields
                pending += [inner.removeprefix("[]") for inner in fields.values() if inner]
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def read_version(version: str, packages: Iterable[str]) -> Structs:
    """Return the structs of these packages of a version of Kubernetes' API."""
    api, machinery = (_fetched(module, version) for module in ("k8s.io/api", "k8s.io/apimachinery"))
    structs = structs_of((machinery / "pkg/apis/meta/v1/types.go").read_text(), "meta/v1")
    for package in packages:
        structs |= structs_of((api / package / "types.go").read_text(), package)
    return structs


def _fetched(module: str, version: str) -> Path:
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    # Outside of any module, none is changed.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return Path(json.loads(done.stdout)["Dir"])


def main() -> None:
    """Write the table: a line for each struct."""
    roots = {struct_of(*kind) for kind in (*KINDS, LIST)}
    packages = {root.rpartition(".")[0] for root in roots} - {"meta/v1"}
    versions = [read_version(version, packages) for version in VERSIONS]
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table(versions, roots).items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

"""Cluster files: Kubernetes manifests in YAML or JSON.

YAML is converted to JSON first, as Kubernetes' own tools do. So one decoder reads both.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import yaml
from msgspec import Raw, structs

from extender_service.kube.parsing.api_defaults import (
    DEFAULT_NAMESPACE,
    default_claim,
    default_metadata,
    default_node,
    default_persistent_volume,
    default_pod,
    default_replication_controller,
    default_storage_capacity,
    default_storage_class,
)
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.parsing.known_fields import LIST, FieldCheck, UnknownField
from extender_service.kube.parsing.yaml_documents import ManifestLoader
from extender_service.kube.types.core import Node, Object, Pod
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.storage import (
    STORAGE_KINDS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet

T = TypeVar("T", bound=Object)

# The kinds that are read from a file, by (apiVersion, kind).
KINDS: dict[tuple[str, str], type[Object]] = {
    ("v1", "Node"): Node,
    ("v1", "Pod"): Pod,
    ("v1", "Namespace"): Namespace,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    **STORAGE_KINDS,
}
# The kinds without a namespace.
CLUSTER_SCOPED: frozenset[type[Object]] = frozenset(
    {Node, Namespace, PersistentVolume, StorageClass, CSINode, CSIDriver, VolumeAttachment}
)

_decoders: dict[type[Object], Decoder[Any]] = {kind: Decoder(kind) for kind in KINDS.values()}
_fill_in: dict[type[Object], Callable[[Any, Raw], Object]] = {
    Node: default_node,
    Pod: default_pod,
    ReplicationController: default_replication_controller,
    PersistentVolume: default_persistent_volume,
    PersistentVolumeClaim: default_claim,
    StorageClass: default_storage_class,
    CSIStorageCapacity: default_storage_capacity,
}


class ManifestError(ValueError):
    """A file that cannot be read. The text is one line with the file, the document, the object and the field."""


class Manifests:
    """The objects of one or more files. A later object replaces an earlier one of the same key, as with kubectl apply.

    `unknown` counts the ignored objects of kinds that are not in KINDS, by (apiVersion, kind). `unknown_fields` are the
    ignored fields that Kubernetes does not have either.
    """

    def __init__(self) -> None:
        self._objects: dict[type[Object], dict[str, Object]] = {}
        self.unknown: Counter[tuple[str, str]] = Counter()
        self.unknown_fields: list[UnknownField] = []

    def of(self, object_type: type[T]) -> dict[str, T]:
        """Return the objects of a type by "namespace/name", or by name if the kind has no namespace."""
        return cast("dict[str, T]", self._objects.get(object_type, {}))

    def add(self, key: str, item: Object) -> None:
        """Add an object, in place of an earlier one of the same type and key."""
        self._objects.setdefault(type(item), {})[key] = item


def read_manifests(paths: Iterable[Path]) -> Manifests:
    """Read files and fill in the API server's defaults. Raises ManifestError.

    A JSON file holds one manifest or List, a YAML file any number of them.
    """
    manifests = Manifests()
    for path in paths:
        fields = FieldCheck()
        for place, document in _documents(path):
            _read_document(document, f"{path}: document {place}", manifests, fields)
        manifests.unknown_fields += fields.found
    return manifests


class _Name(Object):
    name: str = ""
    namespace: str = ""


class _Head(Object):
    """The fields that determine how to decode the rest."""

    api_version: str = ""
    kind: str = ""
    metadata: _Name = _Name()


class _List(Object):
    items: tuple[Raw, ...] = ()


_heads = Decoder(_Head)
_lists = Decoder(_List)


class _Element(NamedTuple):
    """An object in a document. A list passes the type of its elements on in `api_version` and `kind`."""

    source: Raw
    place: str
    api_version: str = ""
    kind: str = ""


def _read_document(document: Raw, place: str, manifests: Manifests, fields: FieldCheck) -> None:
    pending = [_Element(document, place)]
    while pending:
        element = pending.pop()
        subject = ""
        try:
            head = _heads.decode(element.source)
            api_version, kind = head.api_version or element.api_version, head.kind or element.kind
            if not api_version or not kind:
                raise DecodeError("apiVersion and kind must be given")
            if kind.endswith("List"):
                elements = _elements(element, api_version, kind)
                if not elements:
                    # The list may have its elements in a misspelled field instead of items.
                    fields.check(element.source, *LIST, place=element.place, subject=kind)
                pending += elements
                continue
            object_type = KINDS.get((api_version, kind))
            if object_type is None:
                manifests.unknown[api_version, kind] += 1
                continue
            key = _key(head.metadata, namespaced=object_type not in CLUSTER_SCOPED)
            subject = f"{kind} {key}"
            manifests.add(key, _read_object(element.source, object_type))
            fields.check(element.source, api_version, kind, place=element.place, subject=subject)
        except DecodeError as error:
            where = f"{element.place}: {subject}" if subject else element.place
            raise ManifestError(f"{where}: {_with_hint(str(error))}") from error


def _elements(parent: _Element, api_version: str, kind: str) -> list[_Element]:
    """Return the elements of a list, last first. The elements of a typed list (PodList) may omit their type."""
    inherited = ("", "") if kind == "List" else (api_version, kind.removesuffix("List"))
    items = _lists.decode(parent.source).items
    return [_Element(item, f"{parent.place}, item {index}", *inherited) for index, item in enumerate(items, 1)][::-1]


def _key(metadata: _Name, *, namespaced: bool) -> str:
    if not metadata.name:
        raise DecodeError("metadata.name must be given")
    return f"{metadata.namespace or DEFAULT_NAMESPACE}/{metadata.name}" if namespaced else metadata.name


def _read_object(source: Raw, object_type: type[Object]) -> Object:
    item = _decoders[object_type].decode(source)
    metadata = default_metadata(item.metadata, namespaced=object_type not in CLUSTER_SCOPED)
    item = structs.replace(item, metadata=metadata)
    fill_in = _fill_in.get(object_type)
    return item if fill_in is None else fill_in(item, source)


def _with_hint(message: str) -> str:
    if re.search("Expected `str`, got `(bool|int|float)`", message):
        return f"{message} (in YAML, text that looks like a number or a truth value needs quotes)"
    return message


def _documents(path: Path) -> Iterator[tuple[int, Raw]]:
    """Yield the documents of a file as JSON, each with its number from 1. Skips empty documents, but counts them."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from error
    # A file that starts with a brace is JSON, as in apimachinery's util/yaml.
    if content.lstrip().startswith(b"{"):
        yield 1, Raw(content)
        return
    for number, document in enumerate(_yaml_documents(path, content), 1):
        if document is not None:
            try:
                yield number, Raw(msgspec.json.encode(document))
            except RecursionError as error:
                raise ManifestError(f"{path}: document {number}: the YAML is nested too deeply") from error
            except TypeError as error:
                raise ManifestError(f"{path}: document {number}: {error}") from error


def _yaml_documents(path: Path, content: bytes) -> Iterator[object]:
    try:
        yield from yaml.load_all(content, ManifestLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ManifestError(f"{path}: {where}{error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ManifestError(f"{path}: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: the YAML is nested too deeply") from error

"""Reads YAML and JSON as Kubernetes does: scalars as Go resolves them, and a field that occurs twice is found.

The rules are those of sigs.k8s.io/yaml, which converts YAML to JSON, and of sigs.k8s.io/json. They differ from
PyYAML's: `1e2` is a number, `y` is true, `1:30` and `2024-01-01` are text, and of several documents only the first
counts.
"""

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import yaml

from extender_service.config.problems import ConfigError, Problem
from extender_service.kube.parsing.yaml_documents import AliasError, DocumentLoader

_WORDS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
# strconv.ParseInt with base 0, and YAML's own octal and binary forms.
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FIRST_OF_NUMBERS = frozenset("+-.0123456789")
# A sign, 0b and 64 bits; what is longer is a float.
_MOST_INTEGER_CHARACTERS = 67
_OLD_OCTAL = re.compile(r"^([-+]?0)(?=[0-7])")
# encoding/json prints floats from here on with an exponent, so they no longer read as whole numbers.
_LEAST_WITH_EXPONENT = 1e21
_PLAIN = "plain"
_STRING = "tag:yaml.org,2002:str"
_MERGE = "<<"


class _Fields(list[tuple[str, Any]]):
    """The fields of a JSON object as they were written, so that repeated ones are still there."""


class _Loader(DocumentLoader):
    """Leaves plain scalars as they are written, to be resolved later."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:  # noqa: ARG002
        """Return the tag of a node that has none in the text; the reader ignores that of a collection."""
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _STRING


def parse(text: str) -> tuple[Any, list[Problem]]:
    """Return what a file holds and a problem for each field that occurs twice. Raises ConfigError for bad syntax."""
    try:
        return _parse_json(text) if text.lstrip().startswith("{") else _parse_yaml(text)
    except RecursionError:
        raise ConfigError([Problem("", "nested too deeply")]) from None


def _parse_json(text: str) -> tuple[Any, list[Problem]]:
    problems: list[Problem] = []
    try:
        value = json.loads(text, object_pairs_hook=_Fields, parse_constant=_refuse_constant)
    except ValueError as error:
        raise ConfigError([Problem("", f"not valid JSON: {error}")]) from None
    return _json_value(value, "", problems), problems


def _parse_yaml(text: str) -> tuple[Any, list[Problem]]:
    problems: list[Problem] = []
    try:
        document = next(yaml.compose_all(text, Loader=_Loader), None)
        if document is None:
            return None, problems
    except (yaml.YAMLError, AliasError) as error:
        raise ConfigError([Problem("", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    return _YamlReader(problems).value(document, ""), problems


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _json_value(value: Any, path: str, problems: list[Problem]) -> Any:
    if isinstance(value, _Fields):
        fields = ((key, _json_value(each, _child(path, key), problems)) for key, each in value)
        return _mapping(fields, path, problems)
    if isinstance(value, list):
        return [_json_value(each, f"{path}[{index}]", problems) for index, each in enumerate(value)]
    return value


class _YamlReader:
    """Turns YAML nodes into values."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def value(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.tag == _STRING else resolve_scalar(node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, f"{path}[{index}]") for index, each in enumerate(node.value)]
        return _mapping(self._fields(node, path), path, self._problems)

    def _fields(self, node: yaml.Node, path: str) -> list[tuple[str, Any]]:
        """Return the fields of a mapping in order; merged fields take the place of the merge key."""
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError([Problem(path, "not valid YAML: only mappings can be merged with <<")])
        fields: list[tuple[str, Any]] = []
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == _MERGE and key.tag == _PLAIN:
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                fields += [field for each in merged for field in self._fields(each, path)]
            else:
                name = self._field_name(key, path)
                fields.append((name, self.value(value, _child(path, name))))
        return fields

    def _field_name(self, node: yaml.Node, path: str) -> str:
        value = self.value(node, path)
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, (dict, list)):
            raise ConfigError([Problem(path, f"not valid YAML: line {node.start_mark.line + 1}: a key must be text")])
        return json.dumps(value)


def resolve_scalar(text: str) -> Any:
    """Return the value of a plain scalar (goyaml.v2's resolve)."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBERS:
        return text
    plain = text.replace("_", "")
    if len(plain) <= _MOST_INTEGER_CHARACTERS and _INTEGER.fullmatch(plain):
        integer = int(_OLD_OCTAL.sub(r"\1o", plain), 0)
        if -(2**63) <= integer < 2**64:
            return integer
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if number.is_integer() and abs(number) < _LEAST_WITH_EXPONENT:
            return int(Decimal(repr(number)))
        return number
    return text


def _mapping(fields: Iterable[tuple[str, Any]], path: str, problems: list[Problem]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in fields:
        if key in mapping:
            problems.append(Problem(_child(path, key), "duplicate field: give it once"))
        mapping[key] = value
    return mapping


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key

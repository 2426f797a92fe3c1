"""Composes YAML documents, and refuses those whose aliases have no end or expand to very much ("billion laughs").

A document is a graph of nodes while it is composed: an alias refers to the node of its anchor. Whatever reads the
document as a tree then takes time and memory for each alias, so the graph is measured first.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor

# A document may expand to this much, or to MOST_TIMES its own size, if that is more. kubectl refuses smaller ones
# (goyaml.v2's allowedAliasRatio), except those with few but long values.
MOST_EXPANDED_BYTES = 1 << 24
MOST_TIMES = 16
# What a node takes besides its text: a key's or value's quotes and separators, or the object that holds it.
_NODE_BYTES = 16


class AliasError(ValueError):
    """A document with an alias that contains itself, or with too many aliases. The text quotes nothing of it."""


class DocumentLoader(Composer, yaml.CSafeLoader):
    """Scans with libyaml, which skips tabs behind a value as Kubernetes' YAML reader does, and composes in Python.

    Where an anchor is defined twice, aliases stand for the last definition before them. Raises AliasError. Deep nesting
    raises RecursionError in the Python composer; the composer in C crashes.
    """

    def __init__(self, stream: bytes | str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)

    def compose_document(self) -> Any:
        """Compose a document whose aliases end. As in Composer, but measures documents that have anchors."""
        self.get_event()
        document: Any = self.compose_node(None, 0)
        self.get_event()
        if self.anchors:
            check_aliases(document)
        self.anchors = {}
        return document

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node. As in Composer, except that an anchor may be defined once more."""
        if self.check_event(yaml.AliasEvent):
            return super().compose_node(parent, index)
        event: Any = self.peek_event()
        if self.check_event(yaml.ScalarEvent):
            return self.compose_scalar_node(event.anchor)
        if self.check_event(yaml.SequenceStartEvent):
            return self.compose_sequence_node(event.anchor)
        return self.compose_mapping_node(event.anchor)


class ManifestLoader(DocumentLoader):
    """Reads plain scalars as Kubernetes' YAML reader does: 2001-01-01 and 12:30 are strings."""


ManifestLoader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0].rpartition(":")[2] in {"bool", "null", "merge"}]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
ManifestLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
ManifestLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def _placed(construct: Callable[[SafeConstructor, yaml.ScalarNode], Any]) -> Callable[[Any, yaml.ScalarNode], Any]:
    """Return a constructor whose errors have a line and column, whatever PyYAML's own constructor raises."""

    def placed(loader: SafeConstructor, node: yaml.ScalarNode) -> Any:
        try:
            return construct(loader, node)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            problem = f"a value cannot be read as {node.tag.rpartition(':')[2]}"
            raise ConstructorError(None, None, problem, node.start_mark) from error

    return placed


for _name in ("bool", "int", "float", "timestamp"):
    _tag = f"tag:yaml.org,2002:{_name}"
    ManifestLoader.add_constructor(_tag, _placed(SafeConstructor.yaml_constructors[_tag]))


def check_aliases(document: yaml.Node) -> None:
    """Raise AliasError if a node contains itself, or if the document with every alias replaced is too large.

    Takes time for each node, not for each alias, and does not recurse.
    """
    expanded: dict[int, int] = {}  # the bytes of a node with all that it contains
    own_bytes = 0
    ancestors: set[int] = set()
    pending = [document]
    while pending:
        node = pending[-1]
        if id(node) in expanded:
            pending.pop()
            continue
        children = _children(node)
        if children and id(node) not in ancestors:
            ancestors.add(id(node))
            for child in children:
                if id(child) in ancestors:
                    raise AliasError(f"line {node.start_mark.line + 1}: an anchor's value contains itself")
            pending += children
            continue
        ancestors.discard(id(node))
        pending.pop()
        size = _NODE_BYTES + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        own_bytes += size
        # Far beyond the limit, the exact size is only a long number.
        expanded[id(node)] = min(size + sum(expanded[id(child)] for child in children), 1 << 62)
    most = max(MOST_EXPANDED_BYTES, MOST_TIMES * own_bytes)
    if expanded[id(document)] > most:
        raise AliasError(f"with its aliases replaced, the document has more than {most:,} bytes; use fewer aliases")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []

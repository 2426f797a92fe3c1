"""Nodes with their whole JSON, for extenders that are sent nodes instead of names."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.resources.api_resources import Frame, ObjectList, Resource
from extender_service.kube.resources.raw_items import LineDecoder, PageDecoder, without_managed_fields
from extender_service.kube.types.core import Node


class NodeWithJson(Node):
    """v1.Node. `whole_json` has all fields, as the API server sent them."""

    whole_json: bytes = b""


_decoder = Decoder(NodeWithJson)


@dataclass(frozen=True)
class _NodesWithJson(Resource[Any]):
    @cached_property
    def list_decoder(self) -> Decoder[ObjectList[Any]]:
        """The decoder of a page of a list."""
        return PageDecoder(_node)

    @cached_property
    def frame_decoder(self) -> Decoder[Frame[Any]]:
        """The decoder of a line of a watch."""
        return LineDecoder(_node)


def _node(raw: msgspec.Raw) -> NodeWithJson:
    return msgspec.structs.replace(_decoder.decode(raw), whole_json=without_managed_fields(raw))


NODES_WITH_JSON = _NodesWithJson("", "v1", "nodes", NodeWithJson)

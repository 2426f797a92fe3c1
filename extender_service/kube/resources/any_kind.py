"""Resources of any kind, custom ones too, of which only the metadata is decoded."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.resources.api_resources import Frame, ObjectList, Resource
from extender_service.kube.resources.raw_items import LineDecoder, PageDecoder, without_managed_fields
from extender_service.kube.types.core import Metadata, Object


class AnyObject(Object):
    """An object of any kind. `whole_json` has all its fields except metadata.managedFields; empty if not kept."""

    metadata: Metadata = Metadata()
    whole_json: bytes = b""


_decoder = Decoder(AnyObject)


@dataclass(frozen=True)
class AnyKind(Resource[Any]):
    """A resource of which each object is an AnyObject. With `keeps_json`, they have their JSON."""

    keeps_json: bool = False

    @cached_property
    def list_decoder(self) -> Decoder[ObjectList[Any]]:
        """The decoder of a page of a list."""
        return PageDecoder(self._object)

    @cached_property
    def frame_decoder(self) -> Decoder[Frame[Any]]:
        """The decoder of a line of a watch."""
        return LineDecoder(self._object)

    def _object(self, raw: msgspec.Raw) -> AnyObject:
        found = _decoder.decode(raw)
        return msgspec.structs.replace(found, whole_json=without_managed_fields(raw)) if self.keeps_json else found


def any_kind(name: str, *, keeps_json: bool) -> AnyKind:
    """Return the resource of a name, plural.version.group (schema.ParseResourceArg); core kinds have an empty group."""
    plural, version, group = name.split(".", 2)
    return AnyKind(group, version, plural, AnyObject, keeps_json)

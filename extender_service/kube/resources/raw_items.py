"""Lists and watches of which a function decodes each object, because its JSON decides how, or is kept."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.resources.api_resources import Frame, ListMeta, ObjectList

_members = Decoder(dict[str, msgspec.Raw])
_NOTHING: Final = msgspec.Raw(b"{}")


def without_managed_fields(raw: msgspec.Raw) -> bytes:
    """Return the JSON of an object without metadata.managedFields, which is often half of it. Raises DecodeError."""
    members = _members.decode(raw)
    metadata = _members.decode(members.get("metadata", _NOTHING))
    metadata.pop("managedFields", None)
    return msgspec.json.encode({**members, "metadata": metadata})


class _RawList(msgspec.Struct, frozen=True, gc=False):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class PageDecoder(Decoder[ObjectList[Any]]):
    """Decodes a page of a list; `item` decodes each object."""

    def __init__(self, item: Callable[[msgspec.Raw], Any]) -> None:
        super().__init__(ObjectList[Any])
        self._raw = Decoder(_RawList)
        self._item = item

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> ObjectList[Any]:
        """Decode a page; raises DecodeError."""
        page = self._raw.decode(data)
        return ObjectList(page.metadata, tuple([self._item(raw) for raw in page.items]))


class LineDecoder(Decoder[Frame[Any]]):
    """Decodes a line of a watch; `item` decodes its object."""

    def __init__(self, item: Callable[[msgspec.Raw], Any]) -> None:
        super().__init__(Frame[Any])
        self._raw = Decoder(Frame[msgspec.Raw])  # type: ignore[type-var]  # no object yet
        self._item = item

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> Frame[Any]:
        """Decode a line; raises DecodeError."""
        frame = self._raw.decode(data)
        if frame.type == "ERROR":
            return Frame(frame.type, frame.object)
        return Frame(frame.type, self._item(frame.object))

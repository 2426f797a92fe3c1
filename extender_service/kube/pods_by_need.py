"""A watch of all pods that decodes whole only the pending ones of some schedulers; the others stay small."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from extender_service.kube.api_resources import Frame, ListMeta, ObjectList, Resource
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import Object
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.watched_pods import AnyPod, WatchedPod


class _SpecGlance(Object):
    node_name: str = ""
    scheduler_name: str = ""


class _Glance(Object):
    spec: _SpecGlance = _SpecGlance()


class _RawList(msgspec.Struct, frozen=True, gc=False):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


_glance = Decoder(_Glance)
_whole = Decoder(PendingPod)
_small = Decoder(WatchedPod)


@dataclass(frozen=True)
class PodsByNeed(Resource[Any]):
    """The pods of the cluster: PendingPod for one of the given schedulers that is on no node, WatchedPod for others."""

    scheduler_names: frozenset[str] = frozenset()

    @cached_property
    def list_decoder(self) -> Decoder[ObjectList[Any]]:
        """The decoder of a page of a list."""
        return _PageDecoder(self._pod)

    @cached_property
    def frame_decoder(self) -> Decoder[Frame[Any]]:
        """The decoder of a line of a watch."""
        return _LineDecoder(self._pod)

    def _pod(self, raw: msgspec.Raw) -> AnyPod:
        spec = _glance.decode(raw).spec
        is_ours = not spec.node_name and spec.scheduler_name in self.scheduler_names
        return _whole.decode(raw) if is_ours else _small.decode(raw)


def pods_by_need(scheduler_names: Collection[str]) -> PodsByNeed:
    """Return the resource of all pods, of which the pending ones of these schedulers are decoded whole."""
    return PodsByNeed("", "v1", "pods", WatchedPod, frozenset(scheduler_names))


class _PageDecoder(Decoder[ObjectList[Any]]):
    def __init__(self, pod: Callable[[msgspec.Raw], AnyPod]) -> None:
        super().__init__(ObjectList[Any])
        self._raw = Decoder(_RawList)
        self._pod = pod

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> ObjectList[Any]:
        page = self._raw.decode(data)
        return ObjectList(page.metadata, tuple([self._pod(raw) for raw in page.items]))


class _LineDecoder(Decoder[Frame[Any]]):
    def __init__(self, pod: Callable[[msgspec.Raw], AnyPod]) -> None:
        super().__init__(Frame[Any])
        self._raw = Decoder(Frame[msgspec.Raw])  # type: ignore[type-var]  # no object yet
        self._pod = pod

    def decode(self, data: bytes | bytearray | msgspec.Raw) -> Frame[Any]:
        frame = self._raw.decode(data)
        if frame.type == "ERROR":
            return Frame(frame.type, frame.object)
        return Frame(frame.type, self._pod(frame.object))

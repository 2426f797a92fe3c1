"""A watch of all pods that decodes whole only the pending ones of some schedulers; the others stay small."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.resources.api_resources import Frame, ObjectList, Resource
from extender_service.kube.resources.raw_items import LineDecoder, PageDecoder, without_managed_fields
from extender_service.kube.types.core import Object
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.watched_pods import AnyPod, WatchedPod


class _SpecGlance(Object):
    node_name: str = ""
    scheduler_name: str = ""


class _Glance(Object):
    spec: _SpecGlance = _SpecGlance()


_glance = Decoder(_Glance)
_whole = Decoder(PendingPod)
_small = Decoder(WatchedPod)
# What the API server writes of a pod that is on a node, and sometimes of others, in a field of that name elsewhere.
_ON_A_NODE: Final = b'"nodeName":"'


@dataclass(frozen=True)
class PodsByNeed(Resource[Any]):
    """The pods of the cluster: PendingPod for one of the given schedulers that is on no node, WatchedPod for others.

    With `keeps_json`, the former have their whole JSON.
    """

    scheduler_names: frozenset[str] = frozenset()
    keeps_json: bool = False

    @cached_property
    def list_decoder(self) -> Decoder[ObjectList[Any]]:
        """The decoder of a page of a list."""
        return PageDecoder(self._pod)

    @cached_property
    def frame_decoder(self) -> Decoder[Frame[Any]]:
        """The decoder of a line of a watch."""
        return LineDecoder(self._pod)

    def _pod(self, raw: msgspec.Raw) -> AnyPod:
        if _ON_A_NODE in bytes(raw):  # most are, and then there is no need for a glance
            small = _small.decode(raw)
            if small.spec.node_name:
                return small
        spec = _glance.decode(raw).spec
        is_ours = not spec.node_name and spec.scheduler_name in self.scheduler_names
        if not is_ours:
            return _small.decode(raw)
        pod = _whole.decode(raw)
        return msgspec.structs.replace(pod, whole_json=without_managed_fields(raw)) if self.keeps_json else pod


def pods_by_need(scheduler_names: Collection[str], *, keeps_json: bool = False) -> PodsByNeed:
    """Return the resource of all pods, of which the pending ones of these schedulers are decoded whole."""
    return PodsByNeed("", "v1", "pods", WatchedPod, frozenset(scheduler_names), keeps_json)

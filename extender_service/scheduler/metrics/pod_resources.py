"""What each pod requests, and its limits, as Prometheus reads them (pkg/scheduler/metrics/resources).

The table of pods has no limits, and requests only rounded up. So what a pod shows is kept here, by its slot in the
table, once for all pods with equal containers, and packed: of 150,000 pods, no two may be alike.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from extender_service.caches import cached
from extender_service.cluster.amounts.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    RequestShape,
    counts_at_pod_level,
    total_requests,
)
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.interning import shared
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.parsing.quantities import QuantityError, parse_quantity
from extender_service.kube.types.core import Object, PodResources, RawQuantity, ResourceList, runs_as_sidecar
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.watched_pods import AnyPod

REQUEST: Final = "kube_pod_resource_request"
LIMIT: Final = "kube_pod_resource_limit"

_HELP: Final = {
    LIMIT: "Resource limits of each pod that has not ended.",
    REQUEST: "Resources that each pod requests that has not ended.",
}
_UNITS: Final = {CPU: "cores", MEMORY: "bytes", "storage": "bytes", EPHEMERAL_STORAGE: "bytes"}
# A part of the answer takes a few milliseconds: it ends after so much text, or so many pods, also without any line.
# Text counts, as one pod may have tens of thousands of resources, and lines of a megabyte: all of its lines together
# may be more than memory holds.
_PART_CHARACTERS: Final = 256 << 10
_PODS_A_PART: Final = 500


class _Container(Object):
    resources: PodResources = PodResources()
    restart_policy: str = ""


class _Spec(Object):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: ResourceList = {}
    resources: PodResources | None = None


class Series(NamedTuple):
    """A resource, its unit, and the amount as text."""

    resource: str
    unit: str
    amount: str


class Usage(NamedTuple):
    """What pods with equal containers request, and their limits."""

    requests: tuple[Series, ...] = ()
    limits: tuple[Series, ...] = ()


_decoder = Decoder(_Spec)
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Usage).decode
_NOTHING: Final = _pack(Usage())


class PodResourceMetrics:
    """What all pods of a cluster request, and their limits. `is_pending` is asked by key, which is namespace/name."""

    def __init__(self, cluster: Cluster, is_pending: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._is_pending = is_pending
        self._shows_pod_level = cluster.rules.pod_level_resources_shown
        # By slot, and valid while the pod in it has the UID.
        self._uids: list[str] = []
        self._schedulers: list[str] = []
        self._usages: list[bytes] = []

    def note(self, pod: AnyPod) -> None:
        """Take in a pod that the cluster has taken in."""
        slot = self._cluster.slot_of(key_of(pod))
        if slot is None:
            return  # it has ended
        missing = slot + 1 - len(self._uids)
        if missing > 0:
            self._uids += [""] * missing
            self._schedulers += [""] * missing
            self._usages += [_NOTHING] * missing
        usage = _usage_of(pod, shows_pod_level=self._shows_pod_level)
        if self._uids[slot] != pod_uid(pod) or self._usages[slot] != usage:
            self._uids[slot] = self._cluster.pods[slot].uid
            self._usages[slot] = usage
        self._schedulers[slot] = shared(pod.spec.scheduler_name)

    def exposition(self) -> Iterator[str]:
        """Yield Prometheus' text format in parts. Between two of them, pods may come and go."""
        for name, help_text in _HELP.items():
            yield f"# HELP {name} {help_text}\n# TYPE {name} gauge\n"
            for first in range(0, len(self._uids), _PODS_A_PART):
                yield from _parts(self._lines(name, range(first, min(first + _PODS_A_PART, len(self._uids)))))

    def _lines(self, name: str, slots: range) -> Iterator[str]:
        pods = self._cluster.pods
        for slot in slots:
            facts = pods.facts[slot]
            if facts is None or facts.uid != self._uids[slot]:
                continue
            usage = _unpack(self._usages[slot])
            node = "" if self._is_pending("/".join(facts.key)) else facts.node_name
            # An API server of 1.31, for one, takes any text as the node's name in a binding.
            labels = (
                f'namespace="{_escaped(facts.namespace)}",pod="{_escaped(facts.name)}",node="{_escaped(node)}",'
                f'scheduler="{_escaped(self._schedulers[slot])}",priority="{int(pods.priority[slot])}"'
            )
            for resource, unit, amount in usage.requests if name == REQUEST else usage.limits:
                yield f'{name}{{{labels},resource="{_escaped(resource)}",unit="{unit}"}} {amount}\n'


def _parts(lines: Iterator[str]) -> Iterator[str]:
    """Join lines; a part ends with the first line that makes it large."""
    part: list[str] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= _PART_CHARACTERS:
            yield "".join(part)
            part, size = [], 0
    yield "".join(part)


def _usage_of(pod: AnyPod, *, shows_pod_level: bool) -> bytes:
    """Return what the pod requests, and its limits: a packed Usage."""
    spec = pod.spec
    parts: dict[str, object] = {
        "containers": spec.containers,
        "initContainers": spec.init_containers,
        "overhead": spec.overhead,
    }
    if shows_pod_level:
        parts["resources"] = spec.resources
    try:
        return _usage(msgspec.json.encode(parts))
    except (QuantityError, DecodeError):
        return _NOTHING  # the cluster has logged it


@cached("resource metrics", most_entries=2048, most_entry_bytes=8 << 10, most_size=768)
def _usage(encoded: bytes) -> bytes:
    spec = _decoder.decode(encoded)
    requests = total_requests(_shape(spec, lambda resources: resources.requests, spec.overhead))
    limits = dict(total_requests(_shape(spec, lambda resources: resources.limits, {})))
    for name, raw in spec.overhead.items():
        if limits.get(name):
            limits[name] += parse_quantity(raw)
    return _pack(Usage(_series(requests), _series(limits)))


def _shape(spec: _Spec, of: Callable[[PodResources], ResourceList], overhead: ResourceList) -> RequestShape:
    containers = tuple([_items(of(container.resources)) for container in spec.containers])
    init_containers = tuple(
        [
            (runs_as_sidecar(container.restart_policy), _items(of(container.resources)))
            for container in spec.init_containers
        ]
    )
    pod_level = () if spec.resources is None else _items(of(spec.resources))
    whole = tuple([each for each in pod_level if counts_at_pod_level(each[0])])
    return RequestShape(containers, init_containers, _items(overhead), 0, whole or None)


def _items(resources: ResourceList) -> tuple[tuple[str, RawQuantity], ...]:
    return tuple(resources.items())


def _series(nanos: Mapping[str, int]) -> tuple[Series, ...]:
    return tuple(Series(name, _unit(name), repr(amount / 10**9)) for name, amount in sorted(nanos.items()) if amount)


def _unit(name: str) -> str:
    if name.startswith("hugepages-"):
        return "bytes"
    return "integer" if name.startswith("attachable-volumes-") else _UNITS.get(name, "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

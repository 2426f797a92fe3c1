"""What a pod requests and a node offers, in whole units.

Amounts are summed exactly in nano units and rounded up once, after summing, as kube-scheduler does
(pkg/api/v1/resource/helpers.go, pkg/scheduler/framework/types.go).
"""

import logging
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType

import msgspec
from msgspec import structs

from extender_service.caches import cached
from extender_service.config.rules import Rules
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.quantities import milli_value, parse_quantity, whole_value
from extender_service.kube.parsing.resource_names import is_scalar_resource
from extender_service.kube.types.core import PodSpec, RawQuantity, ResourceList
from extender_service.kube.types.watched_pods import WatchedPodSpec

log = logging.getLogger(__name__)

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# What scoring assumes for a container that requests nothing (pkg/scheduler/util/pod_resources.go).
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
_DEFAULT_NANOS = {CPU: DEFAULT_CPU_MILLI * 10**6, MEMORY: DEFAULT_MEMORY_BYTES * 10**9}

Nanos = dict[str, int]

Counting = Mapping[str, bool]
"""Which rules of later releases say what a pod counts as: those that hold, by the fields of `_CountedSpec`."""

AS_AT_FIRST: Counting = MappingProxyType({})


class _CountedSpec(PodSpec):
    """What of a pod's spec is counted, and the rules."""

    sidecar_defaults: bool = False
    sidecar_ports: bool = False


_decoder = Decoder(_CountedSpec)


def counting(rules: Rules) -> Counting:
    """Return the rules that say what a pod counts as, in the form of `requests_and_ports`."""
    held = {"sidecarDefaults": rules.sidecar_defaults, "sidecarPorts": rules.sidecar_ports}
    return {name: True for name, holds in held.items() if holds}


def _is_counted(name: str) -> bool:
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar_resource(name)


def whole_amount(name: str, nanos: int) -> int:
    """Round an exact amount up to the unit that scheduling counts in: milli-CPU for cpu, whole units otherwise."""
    return milli_value(nanos) if name == CPU else whole_value(nanos)


def node_allocatable(resources: ResourceList) -> dict[str, int]:
    """Amounts by resource name that a node offers to pods, `pods` among them; names that do not count are left out."""
    offered = {
        name: whole_amount(name, parse_quantity(raw))
        for name, raw in resources.items()
        if name == PODS or _is_counted(name)
    }
    if PODS in offered:
        offered[PODS] = max(offered[PODS], 0)  # less the pods there, the lowest int64 would become the highest
    return offered


class RequestShape(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The part of a pod spec that its requests follow from; most pods share it with others, so sums are kept by it.

    Each container is its requests as (name, raw quantity) pairs; an init container also says whether it is a sidecar.
    `size_bytes` is the length of all that as JSON.
    """

    containers: tuple[tuple[tuple[str, RawQuantity], ...], ...]
    init_containers: tuple[tuple[bool, tuple[tuple[str, RawQuantity], ...]], ...]
    overhead: tuple[tuple[str, RawQuantity], ...]
    size_bytes: int


class PodRequests(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What one pod takes from its node.

    `amounts` hold whole units by resource name (cpu in milli-CPU), in the order of the names and with explicit zeros,
    for the names that scheduling counts. `nonzero_cpu_milli` and `nonzero_memory_bytes` are what the pod weighs when
    nodes are scored.
    """

    amounts: tuple[tuple[str, int], ...]
    nonzero_cpu_milli: int
    nonzero_memory_bytes: int


def has_pod_resources(spec: PodSpec) -> bool:
    """Return whether the pod requests or limits resources as a whole, beside what its containers do."""
    return spec.resources is not None and bool(spec.resources.requests or spec.resources.limits)


def request_shape(spec: PodSpec) -> RequestShape:
    """Take from a pod spec what its requests follow from."""
    parts = (
        tuple([tuple(container.resources.requests.items()) for container in spec.containers]),
        tuple(
            [
                (container.restart_policy == "Always", tuple(container.resources.requests.items()))
                for container in spec.init_containers
            ]
        ),
        tuple(spec.overhead.items()),
    )
    return RequestShape(*parts, len(msgspec.json.encode(parts)))


@cached("summed requests", most_entries=1024, most_entry_bytes=8 << 10, most_size=512, size=attrgetter("size_bytes"))
def pod_requests(shape: RequestShape) -> PodRequests:
    """Add up what a pod takes from its node (calculateResource in framework/types.go).

    Raises QuantityError for a malformed quantity.
    """
    totals = total_requests(shape)
    overhead = dict(shape.overhead)
    return PodRequests(
        tuple(sorted((name, whole_amount(name, nanos)) for name, nanos in totals.items() if _is_counted(name))),
        *(
            _as_int64(
                _nonzero(shape, name, default)
                + (whole_amount(name, parse_quantity(overhead[name])) if name in overhead else 0)
            )
            for name, default in ((CPU, DEFAULT_CPU_MILLI), (MEMORY, DEFAULT_MEMORY_BYTES))
        ),
    )


def total_requests(shape: RequestShape, *, fill_missing: bool = False) -> Mapping[str, int]:
    """Add up a pod's requests in nano units by resource name (resource.PodRequests).

    Containers run together and sidecars beside them; every other init container runs after the sidecars before it and
    alone. With `fill_missing`, a container without a cpu or memory request counts with scoring's default.
    Raises QuantityError for a malformed quantity.
    """
    totals: Nanos = {}
    for requests in shape.containers:
        _add(totals, _nanos(requests, fill_missing=fill_missing))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for is_sidecar, requests in shape.init_containers:
        nanos = _nanos(requests, fill_missing=fill_missing)
        if is_sidecar:
            _add(totals, nanos)
            _add(sidecars, nanos)
            _raise_to(peak, sidecars)
        else:
            _add(nanos, sidecars)
            _raise_to(peak, nanos)
    _raise_to(totals, peak)
    _add(totals, _nanos(shape.overhead, fill_missing=False))
    return totals


def _nonzero(shape: RequestShape, name: str, default: int) -> int:
    # Here every container is rounded up on its own, and sidecars count only against init containers.
    total = sum(_weight(name, _nanos(requests, fill_missing=False), default) for requests in shape.containers)
    peak = 0
    sidecars: Nanos = {}
    for is_sidecar, requests in shape.init_containers:
        nanos = _nanos(requests, fill_missing=False)
        if is_sidecar:
            _add(sidecars, nanos)
            nanos = sidecars
        else:
            _add(nanos, sidecars)
        peak = max(peak, _weight(name, nanos, default))
    return max(_as_int64(total), peak)


def _weight(name: str, nanos: Nanos, default: int) -> int:
    return whole_amount(name, nanos[name]) if name in nanos else default


def _as_int64(total: int) -> int:
    """What Go is left with where a sum is beyond int64."""
    return (total + 2**63) % 2**64 - 2**63


def _nanos(requests: tuple[tuple[str, RawQuantity], ...], *, fill_missing: bool) -> Nanos:
    nanos = {name: parse_quantity(raw) for name, raw in requests}
    return _DEFAULT_NANOS | nanos if fill_missing else nanos


def _add(totals: Nanos, more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        totals[name] = totals.get(name, 0) + nanos


def _raise_to(totals: Nanos, minimum: Mapping[str, int]) -> None:
    for name, nanos in minimum.items():
        if name not in totals or totals[name] < nanos:
            totals[name] = nanos


HostPort = tuple[str, str, int]
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's word for a host port on every address


def host_ports(spec: PodSpec) -> frozenset[HostPort]:
    """Host ports as (ip, protocol, port) with Kubernetes' defaults filled in; init containers' ports do not count."""
    return frozenset(
        [
            (port.host_ip or EVERY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in spec.containers
            for port in container.ports
            if port.host_port > 0
        ]
    )


def host_ports_with_sidecars(spec: PodSpec) -> frozenset[HostPort]:
    """Like `host_ports`, but the ports of sidecars count, too."""
    sidecars = tuple([container for container in spec.init_containers if container.restart_policy == "Always"])
    return host_ports(structs.replace(spec, containers=spec.containers + sidecars) if sidecars else spec)


def requests_and_ports(
    spec: PodSpec | WatchedPodSpec, counted: Counting = AS_AT_FIRST
) -> tuple[PodRequests, frozenset[HostPort]]:
    """What a pod takes from its node.

    Raises QuantityError for a malformed quantity, DecodeError for anything else of a watched pod that is malformed.
    """
    # Pods of one template share their containers, and bytes can be looked up where the objects cannot.
    encoded = msgspec.json.encode(
        {
            "containers": spec.containers,
            "initContainers": spec.init_containers,
            "overhead": spec.overhead,
            "resources": spec.resources,
            **counted,
        }
    )
    return _taken(encoded)


@cached("requests and ports", most_entries=2048, most_entry_bytes=8 << 10, most_size=768)
def _taken(encoded: bytes) -> tuple[PodRequests, frozenset[HostPort]]:
    spec = _decoder.decode(encoded)
    if has_pod_resources(spec):
        _log_pod_resources()
    shape = request_shape(spec)
    requests = pod_requests(shape)
    if spec.sidecar_defaults:
        requests = _with_sidecar_defaults(requests, shape)
    return requests, host_ports_with_sidecars(spec) if spec.sidecar_ports else host_ports(spec)


def _with_sidecar_defaults(requests: PodRequests, shape: RequestShape) -> PodRequests:
    """Let every container weigh at least the default in scoring, sidecars too, and round once, after summing."""
    totals = total_requests(shape, fill_missing=True)
    cpu_milli, memory_bytes = (whole_amount(name, totals.get(name, 0)) for name in (CPU, MEMORY))
    return structs.replace(requests, nonzero_cpu_milli=cpu_milli, nonzero_memory_bytes=memory_bytes)


# The warnings that were logged: each of them once.
_logged: set[str] = set()


def _log_pod_resources() -> None:
    if "spec.resources" not in _logged:
        _logged.add("spec.resources")
        log.warning("pods have spec.resources, which is not supported yet: they count as their containers request")

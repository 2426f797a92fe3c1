"""What a pod requests and a node offers, in whole units.

Amounts are summed exactly in nano units and rounded up once, after summing, as kube-scheduler does
(pkg/api/v1/resource/helpers.go, pkg/scheduler/framework/types.go).
"""

from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec import structs

from extender_service.caches import cached
from extender_service.config.rules import Rules
from extender_service.kube.parsing.quantities import larger, milli_value, parse_quantity, whole_value
from extender_service.kube.parsing.resource_names import is_scalar_resource
from extender_service.kube.types.core import PodSpec, RawQuantity, ResourceList, runs_as_sidecar

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# What scoring assumes for a container that requests nothing (pkg/scheduler/util/pod_resources.go).
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
_DEFAULT_NANOS = {CPU: DEFAULT_CPU_MILLI * 10**6, MEMORY: DEFAULT_MEMORY_BYTES * 10**9}

Nanos = dict[str, int]


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


class RequestRules(msgspec.Struct, frozen=True, gc=False, cache_hash=True, array_like=True, kw_only=True):
    """The rules of a release about what pods take, by their names in `Rules`; small, as keys of caches hold it."""

    pod_level_resources: bool = False
    resized_containers: bool = False
    resized_pods: bool = False
    reports_summed_apart: bool = False
    sidecar_defaults: bool = False
    sidecar_ports: bool = False


OLDEST_REQUEST_RULES = RequestRules()


@lru_cache(maxsize=8)
def request_rules(rules: Rules) -> RequestRules:
    """Take from the rules of a release those about what pods take."""
    return RequestRules(**{name: getattr(rules, name) for name in RequestRules.__struct_fields__})


ResourceItems = tuple[tuple[str, RawQuantity], ...]
"""A resource list as (name, raw quantity) pairs."""


class ContainerRequests(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What the containers of a pod request; an init container also says whether it is a sidecar."""

    containers: tuple[ResourceItems, ...]
    init_containers: tuple[tuple[bool, ResourceItems], ...]


class RequestShape(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The part of a pod that its requests follow from; most pods share it with others, so sums are kept by it.

    `containers` and `init_containers` are as in ContainerRequests. `pod_level` are the requests of the pod as a whole,
    None if it has none, or if they do not count by the `rules`. Of a running pod, `reported` and `reported_sums` are
    what its kubelet reports, by container and summed: the largest sum counts. `size_bytes` is the length of all that
    as JSON.
    """

    containers: tuple[ResourceItems, ...]
    init_containers: tuple[tuple[bool, ResourceItems], ...]
    overhead: ResourceItems
    size_bytes: int
    pod_level: ResourceItems | None = None
    rules: RequestRules = OLDEST_REQUEST_RULES
    reported: tuple[ContainerRequests, ...] = ()
    reported_sums: tuple[ResourceItems, ...] = ()


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


def counts_at_pod_level(name: str) -> bool:
    """Return whether a pod may request a resource as a whole (IsSupportedPodLevelResource)."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def request_shape(spec: PodSpec, rules: RequestRules = OLDEST_REQUEST_RULES) -> RequestShape:
    """Take from a pod spec what its requests follow from."""
    # Each decision comes here, and most pods have neither init containers, nor overhead, nor requests as a whole.
    parts = (
        tuple([tuple(container.resources.requests.items()) for container in spec.containers]),
        tuple(
            [
                (runs_as_sidecar(container.restart_policy), tuple(container.resources.requests.items()))
                for container in spec.init_containers
            ]
        )
        if spec.init_containers
        else (),
        tuple(spec.overhead.items()) if spec.overhead else (),
    )
    if spec.resources is None or not rules.pod_level_resources:
        return RequestShape(*parts, len(msgspec.json.encode(parts)), None, rules)
    pod_level = _pod_level(spec.resources.requests)
    return RequestShape(*parts, len(msgspec.json.encode((parts, pod_level))), pod_level, rules)


def _pod_level(requests: ResourceList) -> ResourceItems | None:
    return tuple([each for each in requests.items() if counts_at_pod_level(each[0])]) or None


@cached("summed requests", most_entries=1024, most_entry_bytes=8 << 10, most_size=512, size=attrgetter("size_bytes"))
def pod_requests(shape: RequestShape) -> PodRequests:
    """Add up what a pod takes from its node (calculateResource in framework/types.go).

    Raises QuantityError for a malformed quantity.
    """
    totals = total_requests(shape)
    return PodRequests(
        tuple(sorted((name, whole_amount(name, nanos)) for name, nanos in totals.items() if _is_counted(name))),
        *_weights(shape, totals),
    )


def total_requests(shape: RequestShape, *, fill_missing: bool = False) -> Mapping[str, int]:
    """Add up a pod's requests in nano units by resource name (resource.PodRequests).

    Containers run together and sidecars beside them; every other init container runs after the sidecars before it and
    alone. With `fill_missing`, a container without a cpu or memory request counts with scoring's default, and requests
    of the pod as a whole do not count: kube-scheduler's NodeResourcesFit does not score by them.
    Raises QuantityError for a malformed quantity.
    """
    return _totals(shape, _DEFAULT_NANOS, None) if fill_missing else _totals(shape, {}, shape.pod_level)


def scored_amounts(shape: RequestShape, *, fill_missing: bool) -> Mapping[str, int]:
    """Return the same as `total_requests` in whole units, for the names that scheduling counts."""
    if not fill_missing or _has_all(shape):
        return dict(pod_requests(shape).amounts)  # which is known mostly
    totals = total_requests(shape, fill_missing=True)
    return {name: whole_amount(name, nanos) for name, nanos in totals.items() if _is_counted(name)}


def _has_all(shape: RequestShape) -> bool:
    """Return whether containers request all that scoring would fill in, and nothing else counts."""
    if shape.init_containers or shape.pod_level is not None or shape.reported or shape.reported_sums:
        return False
    return all(_DEFAULT_NANOS.keys() <= dict(requests).keys() for requests in shape.containers)


def _totals(shape: RequestShape, defaults: Nanos, pod_level: ResourceItems | None) -> Nanos:
    totals = _total_of_containers(shape, defaults)
    for reported in shape.reported:
        _raise_to(totals, _total_of_containers(reported, defaults))
    for sums in shape.reported_sums:
        _raise_to(totals, _nanos(sums))
    if pod_level is not None:
        totals |= _nanos(pod_level)
    _add(totals, _nanos(shape.overhead))
    return totals


def _total_of_containers(pod: RequestShape | ContainerRequests, defaults: Nanos) -> Nanos:
    if len(pod.containers) == 1 and not pod.init_containers:
        return defaults | _nanos(pod.containers[0])
    totals: Nanos = {}
    for requests in pod.containers:
        _add(totals, defaults | _nanos(requests))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for is_sidecar, requests in pod.init_containers:
        nanos = defaults | _nanos(requests)
        if is_sidecar:
            _add(totals, nanos)
            _add(sidecars, nanos)
            now = {name: sidecars[name] for name in nanos}
        else:
            now = {name: amount + sidecars[name] if name in sidecars else amount for name, amount in nanos.items()}
        # Of what this container does not request, the peak is no less than the sidecars have: there may be thousands.
        _raise_to(peak, now)
    _raise_to(totals, peak)
    return totals


def _weights(shape: RequestShape, totals: Mapping[str, int]) -> tuple[int, int]:
    """What a pod weighs when nodes are scored: milli-CPU and bytes of memory."""
    if len(shape.containers) == 1 and not shape.overhead and _has_all(shape):  # as most: nothing to fill in or to round
        cpu, memory = whole_amount(CPU, totals[CPU]), whole_amount(MEMORY, totals[MEMORY])
        if cpu >= 0 <= memory:
            return cpu, memory
    return _filled_in(shape, totals) if shape.rules.sidecar_defaults else _rounded_by_container(shape)


def _filled_in(shape: RequestShape, totals: Mapping[str, int]) -> tuple[int, int]:
    """What a pod weighs since 1.32: where it has requests as a whole, only what is missing altogether is filled in."""
    missing = {name: nanos for name, nanos in _DEFAULT_NANOS.items() if shape.pod_level is None or name not in totals}
    weights = _totals(shape, missing, shape.pod_level) if missing else totals
    return whole_amount(CPU, weights.get(CPU, 0)), whole_amount(MEMORY, weights.get(MEMORY, 0))


def _rounded_by_container(shape: RequestShape) -> tuple[int, int]:
    """What a pod weighs in 1.31."""
    overhead = dict(shape.overhead)
    cpu, memory = (
        _as_int64(
            _nonzero(shape, name, default)
            + (whole_amount(name, parse_quantity(overhead[name])) if name in overhead else 0)
        )
        for name, default in ((CPU, DEFAULT_CPU_MILLI), (MEMORY, DEFAULT_MEMORY_BYTES))
    )
    return cpu, memory


def _nonzero(shape: RequestShape, name: str, default: int) -> int:
    # Here every container is rounded up on its own, and sidecars count only against init containers.
    total = sum(_weight(name, _nanos(requests), default) for requests in shape.containers)
    peak = 0
    sidecars: Nanos = {}
    for is_sidecar, requests in shape.init_containers:
        nanos = {known: parse_quantity(raw) for known, raw in requests if known == name}
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


def _nanos(requests: ResourceItems) -> Nanos:
    return {name: parse_quantity(raw) for name, raw in requests}


def _add(totals: Nanos, more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        totals[name] = totals.get(name, 0) + nanos


def _raise_to(totals: Nanos, minimum: Mapping[str, int]) -> None:
    for name, nanos in minimum.items():
        if name not in totals:
            totals[name] = nanos
        elif totals[name] < nanos:
            totals[name] = larger(nanos, totals[name])


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
    sidecars = tuple([container for container in spec.init_containers if runs_as_sidecar(container.restart_policy)])
    return host_ports(structs.replace(spec, containers=spec.containers + sidecars) if sidecars else spec)

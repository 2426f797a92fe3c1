"""What a pod takes from its node: what it requests, or what its kubelet reports if that is more, and host ports.

While a container is resized, its spec, what the kubelet has allocated and what the container actually has may differ.
The largest counts (k8s.io/component-helpers/resource/helpers.go).
"""

import logging
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import structs

from extender_service.caches import cached
from extender_service.cluster.amounts.requests import (
    ContainerRequests,
    HostPort,
    PodRequests,
    RequestRules,
    RequestShape,
    ResourceItems,
    counts_at_pod_level,
    has_pod_resources,
    host_ports,
    host_ports_with_sidecars,
    pod_requests,
    request_shape,
)
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.quantities import parse_quantity
from extender_service.kube.types.core import (
    Container,
    ContainerStatus,
    PodSpec,
    PodStatus,
    RawQuantity,
    ResourceList,
    runs_as_sidecar,
)
from extender_service.kube.types.watched_pods import AnyPod

log = logging.getLogger(__name__)

_RESIZE_PENDING = "PodResizePending"
_INFEASIBLE = "Infeasible"


class _Counted(PodSpec):
    """All that the result depends on, as the key of the cache encodes it."""

    rules: RequestRules = RequestRules()
    status: PodStatus = PodStatus()


_decoder = Decoder(_Counted)


def requests_and_ports(pod: AnyPod, rules: RequestRules) -> tuple[PodRequests, frozenset[HostPort]]:
    """What a pod takes from its node.

    Raises QuantityError for a malformed quantity, DecodeError for anything else of a watched pod that is malformed.
    """
    spec = pod.spec
    # Pods of one template share their containers, and bytes can be looked up where the objects cannot.
    parts: dict[str, object] = {
        "containers": spec.containers,
        "initContainers": spec.init_containers,
        "overhead": spec.overhead,
        "resources": spec.resources,
        "rules": rules,
    }
    if rules.resized_containers:
        parts["status"] = reported_resources(pod)
    return _taken(msgspec.json.encode(parts))


def reported_resources(pod: AnyPod) -> dict[str, object]:
    """Take from a pod's status what its kubelet reports about resources, and what there is of a resize."""
    status = pod.status
    return {
        "containerStatuses": status.container_statuses,
        "initContainerStatuses": status.init_container_statuses,
        "resources": status.resources,
        "allocatedResources": status.allocated_resources,
        "conditions": [condition for condition in status.conditions if condition.type == _RESIZE_PENDING],
    }


@cached("requests and ports", most_entries=2048, most_entry_bytes=12 << 10, most_size=1024)
def _taken(encoded: bytes) -> tuple[PodRequests, frozenset[HostPort]]:
    counted = _decoder.decode(encoded)
    rules = counted.rules
    if has_pod_resources(counted) and not rules.pod_level_resources:
        _log_pod_resources()
    ports = host_ports_with_sidecars(counted) if rules.sidecar_ports else host_ports(counted)
    return pod_requests(reported_shape(counted, counted.status, rules)), ports


def reported_shape(spec: PodSpec, status: PodStatus, rules: RequestRules) -> RequestShape:
    """Return what the requests of a pod follow from, which may be on a node. Raises QuantityError."""
    shape = request_shape(spec, rules)
    if not rules.resized_containers:
        return shape
    is_infeasible = _is_infeasible(status)
    if rules.resized_pods and shape.pod_level is not None and status.resources is not None:
        shape = structs.replace(
            shape, pod_level=_resized_pod_level(shape.pod_level, status, rules, is_infeasible=is_infeasible)
        )
    if rules.reports_summed_apart:
        shape = _with_sums(shape, spec, status, rules, is_infeasible=is_infeasible)
    else:
        shape = _with_largest_by_container(shape, spec, status, is_infeasible=is_infeasible)
    parts = (
        shape.containers,
        shape.init_containers,
        shape.overhead,
        shape.pod_level,
        shape.reported,
        shape.reported_sums,
    )
    return structs.replace(shape, size_bytes=len(msgspec.json.encode(parts)))


def _is_infeasible(status: PodStatus) -> bool:
    """Return whether the node can never fit what the spec asks for now, so that the spec does not count."""
    pending = next((condition for condition in status.conditions if condition.type == _RESIZE_PENDING), None)
    return pending is not None and pending.reason == _INFEASIBLE


def _resized_pod_level(
    requested: ResourceItems, status: PodStatus, rules: RequestRules, *, is_infeasible: bool
) -> ResourceItems:
    assert status.resources is not None
    lists = [dict(requested)] if not is_infeasible else []
    largest = _largest(lists, (status.resources.requests, status.allocated_resources))
    if rules.reports_summed_apart:
        return tuple([each for each in largest.items() if counts_at_pod_level(each[0])])
    return tuple([(name, largest.get(name, 0)) for name, _ in requested])


def _with_sums(
    shape: RequestShape, spec: PodSpec, status: PodStatus, rules: RequestRules, *, is_infeasible: bool
) -> RequestShape:
    """Since 1.37: the sums of what is requested, allocated and actual."""
    if (
        rules.resized_pods
        and status.allocated_resources is not None
        and status.resources is not None
        and status.resources.requests is not None
    ):
        if is_infeasible:
            shape = structs.replace(shape, containers=(), init_containers=())
        sums = (tuple(status.allocated_resources.items()), tuple(status.resources.requests.items()))
        return structs.replace(shape, reported_sums=sums)
    statuses = _by_name(status)
    if not statuses and not is_infeasible:
        return shape

    def allocated(container: Container) -> ResourceList:
        reported = statuses.get(container.name)
        if reported is not None and reported.allocated_resources is not None:
            return reported.allocated_resources
        return {} if is_infeasible else container.resources.requests

    def actual(container: Container) -> ResourceList:
        reported = statuses.get(container.name)
        if reported is not None and reported.resources is not None and reported.resources.requests is not None:
            return reported.resources.requests
        return allocated(container)

    reports = [
        ContainerRequests(
            tuple([tuple(of(container).items()) for container in spec.containers]),
            tuple(
                [
                    (runs_as_sidecar(container.restart_policy), tuple(of(container).items()))
                    for container in spec.init_containers
                ]
            ),
        )
        for of in (allocated, actual)
    ]
    if is_infeasible:
        first, second = reports
        return structs.replace(
            shape, containers=first.containers, init_containers=first.init_containers, reported=(second,)
        )
    return structs.replace(shape, reported=tuple(reports))


def _with_largest_by_container(
    shape: RequestShape, spec: PodSpec, status: PodStatus, *, is_infeasible: bool
) -> RequestShape:
    """Up to 1.36: of each container and sidecar the largest of what is requested, allocated and actual."""
    statuses = _by_name(status)

    def effective(container: Container) -> ResourceItems:
        requested, reported = container.resources.requests, statuses.get(container.name)
        if reported is None or reported.resources is None:
            return tuple(requested.items())
        lists = [] if is_infeasible else [requested]
        return tuple(_largest(lists, (reported.resources.requests, reported.allocated_resources)).items())

    return structs.replace(
        shape,
        containers=tuple([effective(container) for container in spec.containers]),
        init_containers=tuple(
            [
                (True, effective(container)) if is_sidecar else (False, requested)
                for container, (is_sidecar, requested) in zip(spec.init_containers, shape.init_containers, strict=True)
            ]
        ),
    )


def _by_name(status: PodStatus) -> dict[str, ContainerStatus]:
    return {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}


def _largest(
    requested: Iterable[Mapping[str, RawQuantity]], reported: Iterable[ResourceList | None]
) -> dict[str, RawQuantity]:
    largest: dict[str, RawQuantity] = {}
    for resources in (*requested, *[each for each in reported if each is not None]):
        for name, raw in resources.items():
            if name not in largest or parse_quantity(largest[name]) < parse_quantity(raw):
                largest[name] = raw
    return largest


# The warnings that were logged: each of them once.
_logged: set[str] = set()


def _log_pod_resources() -> None:
    if "spec.resources" not in _logged:
        _logged.add("spec.resources")
        log.warning("pods have spec.resources, which do not count in the release that is followed, only containers' do")

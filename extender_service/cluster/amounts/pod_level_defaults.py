"""What the API server fills in where a pod limits resources as a whole (pkg/apis/core/v1/defaults.go).

For pods that did not pass through an API server, such as those of a cluster file.
"""

from msgspec import structs

from extender_service.cluster.amounts.requests import (
    CPU,
    MEMORY,
    counts_at_pod_level,
    has_pod_resources,
    request_shape,
    total_requests,
)
from extender_service.config.rules import Rules
from extender_service.kube.types.core import Pod, PodSpec, ResourceList

_NANOS_PER_MILLI = 10**6


def default_pod_level_requests(pod: Pod, rules: Rules) -> Pod:
    """Fill in what a pod requests as a whole: what its containers request, else its limit (defaultPodRequests).

    Containers must have their defaults. Without such requests in the release, the pod stays as it is. Raises
    QuantityError for a malformed quantity.
    """
    resources = pod.spec.resources
    if resources is None or not rules.pod_level_resources or not has_pod_resources(pod.spec):
        return pod
    of_containers = _of_containers(pod.spec)
    requests, limits = dict(resources.requests), dict(resources.limits)
    # The API server adds up the limits of containers, which for hugepages equal their requests.
    for name, amount in of_containers.items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    if not limits:
        return pod
    for name in (CPU, MEMORY):
        if name in of_containers:
            requests.setdefault(name, of_containers[name])
    for name, limit in limits.items():
        if counts_at_pod_level(name):
            requests.setdefault(name, limit)
    defaulted = structs.replace(resources, requests=requests, limits=limits)
    return structs.replace(pod, spec=structs.replace(pod.spec, resources=defaulted))


def _of_containers(spec: PodSpec) -> ResourceList:
    sums = total_requests(request_shape(structs.replace(spec, overhead={}, resources=None)))
    return {name: f"{nanos // _NANOS_PER_MILLI}m" for name, nanos in sums.items()}

"""What the pod table keeps of a pod, computed once, then compared with what the table has or added to it."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from extender_service.caches import cached
from extender_service.cluster.amounts.footprint import requests_and_ports
from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, HostPort, PodRequests, RequestRules
from extender_service.cluster.pods.pod_volumes import PodVolumes, pod_volumes
from extender_service.cluster.selection.label_sets import LabelSet, label_set
from extender_service.cluster.structures.interning import shared
from extender_service.kube.parsing.pod_affinity import NO_TERMS, PodAffinityTerms, pod_affinity_terms
from extender_service.kube.types.watched_pods import AnyPod

# The start of a pod that has not started: later than any other.
NOT_STARTED = int(np.iinfo(np.int64).max)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class PodEntry(msgspec.Struct, frozen=True, gc=False):
    """A pod as the table of pods holds it; see `PodTable` for what the fields mean."""

    namespace: str
    name: str
    uid: str
    node_name: str
    nominated_node_name: str
    requests: PodRequests
    ports: frozenset[HostPort]
    label_set: LabelSet
    terms: PodAffinityTerms
    volumes: PodVolumes
    terminating: bool
    preempted: bool
    in_group: bool
    priority: int
    started: int


def pod_entry(pod: AnyPod, uid: str, node_name: str, rules: RequestRules = OLDEST_REQUEST_RULES) -> PodEntry:
    """Take from a pod what the table holds; it counts on `node_name`, with what it takes by the `rules`.

    Raises QuantityError for a malformed quantity, DecodeError for anything else of a watched pod that is malformed.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    labelled = label_set(metadata.namespace, metadata.labels)
    requests, ports = requests_and_ports(pod, rules)
    terminating = metadata.deletion_timestamp != ""
    return PodEntry(
        labelled.namespace,
        metadata.name,
        uid,
        shared(node_name),
        status.nominated_node_name,
        requests,
        ports,
        labelled,
        pod_affinity_terms(labelled.namespace, spec.affinity) if spec.affinity else NO_TERMS,
        pod_volumes(pod),
        terminating,
        terminating and _is_preempted(pod),
        spec.scheduling_group is not None,
        spec.priority,
        _started(status.start_time) if status.start_time else NOT_STARTED,
    )


@cached("start times", most_entries=4096, most_entry_bytes=500, most_size=40)
def _started(start_time: str) -> int:
    """Microseconds since 1970. Cached: many pods start in the same second, and the watch reports each several times."""
    try:
        started = datetime.fromisoformat(start_time)
    except ValueError:
        return NOT_STARTED
    return (started.replace(tzinfo=started.tzinfo or UTC) - _EPOCH) // _MICROSECOND


def _is_preempted(pod: AnyPod) -> bool:
    """Return whether a pod is being deleted to make room (podTerminatingByPreemption in default_preemption.go)."""
    disruption = next((condition for condition in pod.status.conditions if condition.type == "DisruptionTarget"), None)
    return disruption is not None and disruption.status == "True" and disruption.reason == "PreemptionByScheduler"

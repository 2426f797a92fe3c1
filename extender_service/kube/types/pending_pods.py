"""Pods that wait to be scheduled, with all fields that can change meanwhile.

After such a change the pod is tried again, also where scheduling does not read the field.
"""

from extender_service.kube.types.core import (
    Container,
    Object,
    ObjectMeta,
    Pod,
    PodCondition,
    PodResources,
    PodSpec,
    PodStatus,
)


class PendingPodMeta(ObjectMeta):
    """metav1.ObjectMeta."""

    generation: int = 0
    deletion_grace_period_seconds: int | None = None


class PendingContainer(Container):
    """v1.Container."""

    resources: PodResources = PodResources()


class PendingPodSpec(PodSpec):
    """v1.PodSpec."""

    containers: tuple[PendingContainer, ...] = ()
    init_containers: tuple[PendingContainer, ...] = ()
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None


class PodResourceClaimStatus(Object):
    """v1.PodResourceClaimStatus."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Object):
    """v1.ContainerExtendedResourceRequest."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Object):
    """v1.PodExtendedResourceClaimStatus."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PendingPodCondition(PodCondition):
    """v1.PodCondition."""

    message: str = ""
    last_transition_time: str = ""


class PendingPodStatus(PodStatus):
    """v1.PodStatus."""

    conditions: tuple[PendingPodCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


def generated_claims(status: PodStatus) -> object:
    """Return what the status of a pod that waits has of claims that were made for it, to compare; none of others."""
    if not isinstance(status, PendingPodStatus):
        return (), None
    return status.resource_claim_statuses, status.extended_resource_claim_status


class PendingPod(Pod):
    """v1.Pod. `whole_json` has all fields, as the API server sent them, if it was asked for."""

    metadata: PendingPodMeta = PendingPodMeta()
    spec: PendingPodSpec = PendingPodSpec()
    status: PendingPodStatus = PendingPodStatus()
    whole_json: bytes = b""

"""Whether an update of a pod may have made it schedulable (isPodUpdated in internal/queue)."""

import msgspec

from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.kube.types.pending_pods import PendingPodMeta, generated_claims


def is_pod_updated(old: Pod, new: Pod) -> bool:
    """Return whether more than the status and the version differs. Of the status, only claims matter."""
    return (
        old.spec != new.spec
        or generated_claims(old.status) != generated_claims(new.status)
        or (old.metadata is not new.metadata and _lasting(old.metadata) != _lasting(new.metadata))
    )


def _lasting(metadata: ObjectMeta) -> ObjectMeta:
    """Return metadata without what changes with every update."""
    if isinstance(metadata, PendingPodMeta):
        return msgspec.structs.replace(metadata, resource_version="", generation=0)
    return msgspec.structs.replace(metadata, resource_version="")

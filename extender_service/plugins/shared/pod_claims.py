"""Which claims are a pod's."""

from extender_service.kube.types.core import Pod
from extender_service.kube.types.storage import PersistentVolumeClaim


def is_claim_of(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim is one of the pod's, also of an ephemeral volume."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        else:
            continue
        if name == claim.metadata.name:
            return True
    return False

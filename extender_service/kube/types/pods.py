"""The pod's UID, and the phases in which a pod has ended."""

from extender_service.kube.types.watched_pods import AnyPod

TERMINAL_PHASES = ("Succeeded", "Failed")


def pod_uid(pod: AnyPod) -> str:
    """Return the pod's UID, or namespace/name if it has none."""
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"

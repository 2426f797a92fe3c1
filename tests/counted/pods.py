"""Pods of the cases, in clusters of a few pods on each node."""

from msgspec import structs

from extender_service.kube.types.core import Pod

PODS_PER_NODE = 5


def numbered(pod: Pod, number: int) -> Pod:
    """Another pod like this one."""
    name = f"{pod.metadata.name}-{number}"
    return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=f"uid-{name}"))


def placed(pod: Pod, node_name: str) -> Pod:
    """The pod once it is bound."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name))

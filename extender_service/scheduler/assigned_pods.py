"""Pods on nodes as events of the queue show them, put together from what the pod table keeps of them.

Running pods are kept small, so an event about one shows its labels, requests, host ports and volumes, no other fields.
"""

from msgspec import structs

from extender_service.cluster.amounts.requests import CPU
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import Container, ContainerPort, ObjectMeta, Pod, PodSpec, ResourceRequirements
from extender_service.kube.types.keys import Key


def pod_on(pod: Pod, node_name: str) -> Pod:
    """Return the pod as events show it that counts on a node, before the watch says so."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name))


def is_assigned(cluster: Cluster, key: Key) -> bool:
    """Return whether the watch shows a pod of this key on a node."""
    slot = cluster.slot_of(key)
    return slot is not None and bool(cluster.pods[slot].node_name)


def assigned_pod(cluster: Cluster, key: Key) -> Pod | None:
    """Return a pod that the watch shows on a node; None if there is none of this key, or it is on no node."""
    slot = cluster.slot_of(key)
    if slot is None or not (facts := cluster.pods[slot]).node_name:
        return None
    pods = cluster.pods
    requests = pods.request_sets.values[facts.requests]
    assert requests is not None
    container = Container(
        resources=ResourceRequirements(
            {name: f"{amount}m" if name == CPU else str(amount) for name, amount in requests.amounts}
        ),
        ports=tuple(
            ContainerPort(host_port=port, host_ip=address, protocol=protocol)
            for address, protocol, port in pods.ports_of(slot)
        ),
    )
    return Pod(
        ObjectMeta(
            name=facts.name,
            namespace=facts.namespace,
            uid=facts.uid,
            labels=pods.label_sets[int(pods.label_set[slot])].labels,
        ),
        PodSpec(node_name=facts.node_name, containers=(container,), volumes=cluster.held_volumes.of(slot).shown()),
    )

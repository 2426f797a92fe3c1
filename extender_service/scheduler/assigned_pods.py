"""Pods on nodes as events of the queue show them, put together from what the pod table keeps of them.

Running pods are kept small, so an event about one shows its labels, requests, host ports, volumes and required pod
anti-affinity, no other fields.
"""

from collections.abc import Sequence

from msgspec import structs

from extender_service.cluster.amounts.requests import CPU
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.parsing.pod_affinity import AffinityTerm
from extender_service.kube.parsing.selectors import Selector
from extender_service.kube.types.core import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    SelectorRequirement,
)
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
        PodSpec(
            node_name=facts.node_name,
            containers=(container,),
            volumes=cluster.held_volumes.of(slot).shown(),
            affinity=_anti_affinity(pods.terms_of(slot).required_anti),
        ),
    )


def _anti_affinity(terms: Sequence[AffinityTerm]) -> Affinity | None:
    """Return an affinity that is parsed as these required terms of anti-affinity; None for none."""
    if not terms:
        return None
    required = tuple(
        PodAffinityTerm(
            topology_key=term.topology_key,
            label_selector=_label_selector(term.selector),
            namespaces=tuple(sorted(term.namespaces)),
            namespace_selector=_label_selector(term.namespace_selector),
        )
        for term in terms
    )
    return Affinity(pod_anti_affinity=PodAffinity(required=required))


def _label_selector(selector: Selector) -> LabelSelector | None:
    if selector.nothing:
        return None
    return LabelSelector(
        match_expressions=tuple(
            SelectorRequirement(each.key, each.operator.value, each.values) for each in selector.requirements
        )
    )

"""What pods require of the pods near them."""

from collections.abc import Sequence

from extender_service.cluster.selection.label_sets import label_set
from extender_service.kube.types.core import Pod
from extender_service.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, SpreadConstraint, own_constraints


def required_spread(pod: Pod) -> Sequence[SpreadConstraint]:
    """Return the topology spread constraints of a pod that keep it off nodes."""
    labelled = label_set(pod.metadata.namespace, pod.metadata.labels)
    return own_constraints(labelled, pod.spec.topology_spread_constraints, DO_NOT_SCHEDULE).each

"""Which changes of pods wake a pod that PodTopologySpread rejected, in each release."""

from msgspec import structs

from extender_service.cluster.selection.label_sets import label_set
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.kube.types.core import LabelSelector, Pod, TopologySpreadConstraint
from extender_service.plugins.pod_topology_spread.constraints import DO_NOT_SCHEDULE, Constraints, own_constraints
from extender_service.plugins.pod_topology_spread.hints import spread_helped_by_pod
from tests.support.objects import make_pod

SPREAD = TopologySpreadConstraint(1, "zone", DO_NOT_SCHEDULE, LabelSelector({"app": "web"}))


def pod_of(name: str, node: str = "", nominated: str = "") -> Pod:
    pod = make_pod(name, node, nominated=nominated)
    return structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"app": "web"}))


def constraints_of(pod: Pod) -> Constraints:
    return own_constraints(label_set(pod.metadata.namespace, pod.metadata.labels), (SPREAD,), DO_NOT_SCHEDULE)


def waking(old: Pod) -> list[int]:
    """The releases in which the end of a pod, or of its nomination, wakes the pod "own", by minor."""
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    return [
        minor for minor in minors if spread_helped_by_pod(pod_of("own"), constraints_of, old, None, rules_of(minor))
    ]


def test_the_end_of_a_pod_on_a_node_wakes_others() -> None:
    assert waking(pod_of("other", node="a")) == [*range(OLDEST_MINOR, NEWEST_MINOR + 1)]


def test_the_end_of_a_nomination_wakes_others_from_1_36_on() -> None:
    assert waking(pod_of("other", nominated="a")) == [36, 37]


def test_the_end_of_its_own_nomination_wakes_a_pod_before_that_too() -> None:
    assert waking(pod_of("own", nominated="a")) == [32, 33, 34, 35, 36, 37]

"""What events show of pods on nodes."""

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.parsing.pod_affinity import pod_affinity_terms
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
)
from extender_service.scheduler.assigned_pods import assigned_pod
from tests.support.objects import make_node, make_pod

_EXPRESSIONS = (SelectorRequirement("tier", "NotIn", ("a", "b")), SelectorRequirement("old", "DoesNotExist"))


@pytest.mark.parametrize(
    "term",
    [
        PodAffinityTerm("host", LabelSelector({"app": "web"})),
        PodAffinityTerm("zone", LabelSelector({"app": "web"}, _EXPRESSIONS), namespaces=("x", "y")),
        PodAffinityTerm("zone", LabelSelector(), namespace_selector=LabelSelector({"team": "blue"})),
        PodAffinityTerm("zone", None, namespace_selector=LabelSelector()),
    ],
)
def test_the_required_anti_affinity_of_a_running_pod_is_shown(term: PodAffinityTerm) -> None:
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    pod = make_pod("web", "a")
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(structs.replace(pod, spec=structs.replace(pod.spec, affinity=affinity)))
    shown = assigned_pod(cluster, ("default", "web"))
    assert shown is not None
    assert pod_affinity_terms("default", shown.spec.affinity) == pod_affinity_terms("default", affinity)


def test_a_pod_without_it_shows_no_affinity() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(make_pod("web", "a"))
    shown = assigned_pod(cluster, ("default", "web"))
    assert shown is not None
    assert shown.spec.affinity is None

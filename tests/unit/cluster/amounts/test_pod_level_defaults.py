import pytest

from extender_service.cluster.amounts.pod_level_defaults import default_pod_level_requests
from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Container, Pod, PodResources, PodSpec, ResourceList, ResourceRequirements

HUGE = "hugepages-2Mi"


def pod(requests: ResourceList, limits: ResourceList, *containers: ResourceList) -> Pod:
    made = tuple(Container(resources=ResourceRequirements(each)) for each in containers)
    return Pod(spec=PodSpec(containers=made, resources=PodResources(requests, limits), overhead={"cpu": "7"}))


def requested(asked: Pod, minor: int = 34) -> ResourceList:
    resources = default_pod_level_requests(asked, rules_of(minor)).spec.resources
    assert resources is not None
    return resources.requests


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (pod({}, {"cpu": "2"}, {}), {"cpu": "2"}),
        (pod({"cpu": "1"}, {"cpu": "2"}, {}), {"cpu": "1"}),
        (pod({}, {"cpu": "2"}, {"cpu": "300m"}, {"cpu": "1", "memory": "1Gi"}), {"cpu": "1300m", "memory": "1Gi"}),
        (pod({"cpu": "1"}, {}, {"memory": "1Gi"}), {"cpu": "1"}),
        (pod({}, {}, {"cpu": "1"}), {}),
        (pod({}, {HUGE: "4Mi"}, {HUGE: "2Mi"}), {HUGE: "4Mi"}),
        (pod({"cpu": "1"}, {}, {HUGE: "2Mi"}), {"cpu": "1", HUGE: "2Mi"}),
        (pod({}, {"cpu": "2", "example.com/gpu": "1"}, {"example.com/gpu": "1"}), {"cpu": "2"}),
    ],
    ids=["limit", "request", "containers", "no limit", "nothing", "hugepages", "containers' hugepages", "extended"],
)
def test_missing_requests_are_those_of_containers_or_else_limits(asked: Pod, expected: ResourceList) -> None:
    found = requested(asked)
    amounts = {"1073741824000m": "1Gi", "2097152000m": "2Mi"}
    assert {name: amounts.get(str(amount), amount) for name, amount in found.items()} == expected


def test_a_release_without_requests_of_the_pod_as_a_whole_fills_in_none() -> None:
    asked = pod({}, {"cpu": "2"}, {})
    assert default_pod_level_requests(asked, rules_of(33)) is asked


def test_a_pod_that_asks_for_nothing_as_a_whole_stays_as_it_is() -> None:
    asked = Pod(spec=PodSpec(containers=(Container(),)))
    assert default_pod_level_requests(asked, rules_of(37)) is asked

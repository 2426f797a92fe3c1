import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ASSIGNED_POD, NODE, POD, TARGET_POD, ActionType, ClusterEvent
from extender_service.kube.types.core import PodStatus
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own, own_pod, pods_on_nodes, took_room
from tests.support.objects import make_pod

OWN, OTHER = make_pod("a"), make_pod("b")


def update_of(resource: str) -> ClusterEvent:
    return ClusterEvent(resource, ActionType.UPDATE)


@pytest.mark.parametrize(("minor", "resources"), [(36, (POD, POD)), (37, (ASSIGNED_POD, TARGET_POD))])
def test_from_1_37_plugins_register_pods_on_nodes_and_the_pod_itself_apart(
    minor: int, resources: tuple[str, str]
) -> None:
    rules = rules_of(minor)
    assert (pods_on_nodes(rules), own_pod(rules)) == resources


def test_before_that_the_uid_says_whether_an_update_is_the_pods_own() -> None:
    assert is_own(update_of(POD), OWN, OWN, OWN)
    assert not is_own(update_of(POD), OWN, OTHER, OTHER)
    assert is_own(update_of(TARGET_POD), OWN, OWN, OWN)
    assert not is_own(update_of(ASSIGNED_POD), OWN, OWN, OWN)


def test_the_end_of_its_nomination_is_no_update() -> None:
    assert not is_own(ClusterEvent(POD, ActionType.DELETE), OWN, OWN, None)
    assert not is_own(ClusterEvent(POD, ActionType.ADD), OWN, None, OWN)


def test_an_event_of_a_node_is_of_no_pod() -> None:
    assert all(is_of_pod(update_of(resource)) for resource in (POD, ASSIGNED_POD, TARGET_POD))
    assert not is_of_pod(update_of(NODE))


def test_from_1_33_a_nominated_pod_took_room() -> None:
    nominated = msgspec.structs.replace(make_pod("a"), status=PodStatus(nominated_node_name="n"))
    running = msgspec.structs.replace(OWN, spec=msgspec.structs.replace(OWN.spec, node_name="n"))
    waiting = msgspec.structs.replace(OWN, spec=msgspec.structs.replace(OWN.spec, node_name=""))
    took = {minor: [took_room(pod, rules_of(minor)) for pod in (nominated, running, waiting)] for minor in (32, 33)}
    assert took == {32: [False, True, False], 33: [True, True, False]}

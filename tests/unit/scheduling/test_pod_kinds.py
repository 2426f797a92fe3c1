from msgspec import structs

from extender_service.kube.types.core import ImageSource, Pod, Volume
from extender_service.scheduling.pod_kinds import kind_of
from tests.support.objects import make_pod
from tests.support.storage_objects import with_claims


def with_volumes(pod: Pod, *volumes: Volume) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, volumes=volumes))


def test_pods_that_differ_in_name_and_token_volume_are_alike() -> None:
    first = with_volumes(make_pod("a"), Volume(name="token-a"))
    assert kind_of(first) == kind_of(with_volumes(make_pod("b"), Volume(name="token-b")))


def test_pods_with_other_requests_are_not_alike() -> None:
    assert kind_of(make_pod("a", requests={"cpu": "1"})) != kind_of(make_pod("a", requests={"cpu": "2"}))


def test_a_pod_with_an_image_volume_is_like_no_other_since_nodes_may_have_the_image() -> None:
    assert kind_of(with_volumes(make_pod("a"), Volume(name="v", image=ImageSource("x")))) is None


def test_a_pod_with_a_claim_is_like_no_other() -> None:
    assert kind_of(with_claims("a", "claim")) is None

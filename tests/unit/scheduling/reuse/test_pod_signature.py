from msgspec import structs

from extender_service.kube.types.core import ImageSource, Pod, Volume
from extender_service.scheduling.reuse.pod_signature import pod_signature
from tests.support.objects import make_pod
from tests.support.storage_objects import with_claims


def with_volumes(pod: Pod, *volumes: Volume) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, volumes=volumes))


def test_pods_that_differ_in_name_and_token_volume_have_one_signature() -> None:
    first = with_volumes(make_pod("a"), Volume(name="token-a"))
    assert pod_signature(first) == pod_signature(with_volumes(make_pod("b"), Volume(name="token-b")))


def test_pods_with_other_requests_have_another_signature() -> None:
    assert pod_signature(make_pod("a", requests={"cpu": "1"})) != pod_signature(make_pod("a", requests={"cpu": "2"}))


def test_a_pod_with_an_image_volume_has_no_signature_since_nodes_may_have_the_image() -> None:
    assert pod_signature(with_volumes(make_pod("a"), Volume(name="v", image=ImageSource("x")))) is None


def test_a_pod_with_a_claim_has_no_signature() -> None:
    assert pod_signature(with_claims("a", "claim")) is None

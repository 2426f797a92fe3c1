import msgspec
import pytest

from extender_service.kube.types.core import ObjectMeta, PersistentVolumeClaimSource, Source, Volume
from extender_service.kube.types.storage import PersistentVolumeClaim
from extender_service.plugins.shared.pod_claims import is_claim_of
from tests.support.objects import make_pod


@pytest.mark.parametrize(
    ("namespace", "name", "is_one"),
    [
        ("default", "data", True),
        ("default", "a-scratch", True),  # the claim of the ephemeral volume
        ("default", "scratch", False),
        ("other", "data", False),
    ],
)
def test_claims_of_a_pod(namespace: str, name: str, is_one: bool) -> None:
    volumes = (
        Volume(name="v", persistent_volume_claim=PersistentVolumeClaimSource("data")),
        Volume(name="scratch", ephemeral=Source()),
    )
    pod = make_pod("a")
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=volumes))
    assert is_claim_of(pod, PersistentVolumeClaim(ObjectMeta(name=name, namespace=namespace))) is is_one

from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.kube.types.pods import pod_uid


def test_a_pod_is_identified_by_its_uid_or_else_by_its_name() -> None:
    assert pod_uid(Pod(ObjectMeta(namespace="shop", name="web", uid="17"))) == "17"
    assert pod_uid(Pod(ObjectMeta(namespace="shop", name="web"))) == "shop/web"

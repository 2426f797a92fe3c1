from extender_service.kube.types.core import Node, ObjectMeta, Pod
from extender_service.kube.types.keys import key_of


def test_a_key_is_namespace_and_name() -> None:
    assert key_of(Pod(metadata=ObjectMeta(namespace="ns", name="p"))) == ("ns", "p")
    assert key_of(Node(metadata=ObjectMeta(name="n"))) == ("", "n")

from extender_service.kube.resources.api_resources import NODES, PODS, Resource
from extender_service.kube.types.core import Pod


def test_paths_of_the_core_group() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert NODES.path(name="n") == "/api/v1/nodes/n"


def test_paths_of_a_named_group() -> None:
    gadgets = Resource("example.com", "v1beta1", "gadgets", Pod)
    assert gadgets.path("ns", "g") == "/apis/example.com/v1beta1/namespaces/ns/gadgets/g"


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert PODS.path("ns", "../secrets?x") == "/api/v1/namespaces/ns/pods/..%2Fsecrets%3Fx"

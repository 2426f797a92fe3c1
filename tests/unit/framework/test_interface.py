from extender_service.framework.interface import EXTENSION_POINTS, extension_points
from extender_service.plugins.node_name import NodeName
from extender_service.plugins.node_resources.fit import NodeResourcesFit


def test_a_plugin_serves_the_extension_points_that_it_extends() -> None:
    assert extension_points(NodeName) == {"filter"}
    assert extension_points(NodeResourcesFit) == {"preFilter", "filter", "preScore", "score"}


def test_extension_points_are_named_as_in_a_configuration() -> None:
    assert list(EXTENSION_POINTS) == [
        "preEnqueue",
        "queueSort",
        "preFilter",
        "filter",
        "postFilter",
        "preScore",
        "score",
        "reserve",
        "permit",
        "preBind",
        "bind",
        "postBind",
    ]

import pytest

from extender_service.framework.interface import EXTENSION_POINTS, CycleState, PluginError, extension_points
from extender_service.plugins.node_name import NodeName
from extender_service.plugins.node_resources.fit import NodeResourcesFit
from tests.unit.framework.stubs import POD


def test_what_one_extension_point_writes_the_next_reads() -> None:
    state = CycleState(POD)
    state["key"] = 5
    assert "key" in state
    assert state["key"] == state.read("key", "reading") == 5


def test_what_was_not_written_is_told_in_kube_schedulers_words() -> None:
    with pytest.raises(PluginError) as raised:
        CycleState(POD).read("PreFilterNodePorts", "reading")
    assert str(raised.value) == 'reading "PreFilterNodePorts" from cycleState: not found'


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

import pytest

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from tests.support.stub_plugins import POD, Stub


def test_what_one_extension_point_writes_the_next_reads() -> None:
    state = CycleState(POD)
    state["key"] = 5
    assert "key" in state
    assert state["key"] == state.read("key", "reading") == 5


@pytest.mark.parametrize(("key", "shown"), [(Stub("Licences"), "Licences"), ("PreFilterPorts", "PreFilterPorts")])
def test_reading_what_was_not_written_names_the_plugin_and_what_to_ask_first(key: object, shown: str) -> None:
    with pytest.raises(PluginError, match=rf"^the state has nothing of {shown}: its PreFilter .* `in state`$"):
        CycleState(POD)[key]


def test_what_was_not_written_is_told_in_kube_schedulers_words() -> None:
    with pytest.raises(PluginError) as raised:
        CycleState(POD).read("PreFilterNodePorts", "reading")
    assert str(raised.value) == 'reading "PreFilterNodePorts" from cycleState: not found'

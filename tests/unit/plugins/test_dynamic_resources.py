import numpy as np
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.defaulting import default_plugins
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Code
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod, PodResourceClaim, PodSpec
from extender_service.plugins.dynamic_resources import DynamicResources
from tests.support.objects import make_node
from tests.support.stub_plugins import make_handle

POD = Pod()
CLUSTER = Cluster(rules_of(37))
CLUSTER.apply_node(make_node("a"))
NODES = CLUSTER.view(None)
PLUGIN = DynamicResources(None, make_handle(CLUSTER))


def room(state: CycleState, plugin: DynamicResources = PLUGIN) -> tuple[Code, tuple[str, ...]]:
    verdicts = Verdicts(NODES, np.zeros(len(NODES), np.bool_))
    status = plugin.post_filter(state, POD, verdicts, lambda _: verdicts).status
    return status.code, status.reasons


def test_it_has_nothing_to_say_about_pods_without_claims() -> None:
    state = CycleState(POD)
    assert PLUGIN.pre_filter(state, POD) == SKIP
    assert PLUGIN.filter(state, POD, NODES) is None
    assert PLUGIN.score(state, POD, NODES).tolist() == [0]
    assert room(state) == (Code.UNSCHEDULABLE, ())


@pytest.mark.parametrize("minor", [34, 35, 36])
def test_before_1_37_it_says_that_there_is_nothing_to_take_back(minor: int) -> None:
    plugin, state = DynamicResources(None, make_handle(Cluster(rules_of(minor)))), CycleState(POD)
    plugin.pre_filter(state, POD)
    assert room(state, plugin) == (Code.UNSCHEDULABLE, ("no new claims to deallocate",))


def test_a_pod_with_claims_is_not_judged_here() -> None:
    pod = Pod(spec=PodSpec(resource_claims=(PodResourceClaim("gpu"),)))
    state = CycleState(pod)
    assert PLUGIN.pre_filter(state, pod) is None
    assert PLUGIN.filter(state, pod, NODES) is None


def test_where_another_plugin_ended_pre_filter_it_fails_as_in_kube_scheduler() -> None:
    state = CycleState(POD)
    assert room(state) == (Code.ERROR, ("not found",))
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.score(state, POD, NODES)
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.filter(state, POD, NODES)


def test_it_runs_before_preemption_from_1_34_on() -> None:
    names = {minor: [(each.name, each.weight) for each in default_plugins(rules_of(minor))] for minor in range(31, 38)}
    assert "DynamicResources" not in dict(names[33])
    for minor, weight in (34, 0), (35, 2), (37, 2):
        at = names[minor].index(("DynamicResources", weight))
        assert names[minor][at + 1][0] == "DefaultPreemption"

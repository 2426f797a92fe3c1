from extender_service.cluster.state.cluster import Cluster
from extender_service.config.defaulting import default_plugins
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import SKIP
from extender_service.kube.types.core import Pod
from extender_service.plugins.node_declared_features import NodeDeclaredFeatures
from tests.support.stub_plugins import make_handle


def test_it_has_nothing_to_say_about_pods_that_need_no_feature() -> None:
    cluster = Cluster(rules_of(37))
    plugin = NodeDeclaredFeatures(None, make_handle(cluster))
    assert plugin.pre_filter(CycleState(Pod()), Pod()) == SKIP
    assert plugin.filter(CycleState(Pod()), Pod(), cluster.view(None)) is None


def test_it_runs_last_from_1_36_on_or_with_its_gate() -> None:
    assert default_plugins(rules_of(35))[-1].name == "DefaultBinder"
    assert default_plugins(rules_of(35, {"NodeDeclaredFeatures": True}))[-1].name == "NodeDeclaredFeatures"
    assert default_plugins(rules_of(36))[-1].name == "NodeDeclaredFeatures"

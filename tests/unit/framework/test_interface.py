from itertools import pairwise

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.interface import EXTENSION_POINTS, QueuedPod, QueueSort, extension_points
from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.plugins.dynamic_resources import DynamicResources
from extender_service.plugins.node_declared_features import NodeDeclaredFeatures
from extender_service.plugins.node_name import NodeName
from extender_service.plugins.node_resources.fit import NodeResourcesFit
from extender_service.plugins.node_unschedulable import NodeUnschedulable
from extender_service.plugins.taint_toleration import TaintToleration
from tests.support.stub_plugins import make_handle


def test_a_plugin_serves_the_extension_points_that_it_extends() -> None:
    assert extension_points(TaintToleration) == {"preFilter", "filter", "preScore", "score"}
    assert extension_points(NodeResourcesFit) == {"preFilter", "filter", "preScore", "score"}


def test_a_plugin_may_serve_more_points_in_later_releases() -> None:
    assert [NodeName.points_in(rules_of(minor)) for minor in (31, 37)] == [{"filter"}, {"preFilter", "filter"}]
    for plugin in (TaintToleration, NodeUnschedulable):
        assert plugin.points_in(rules_of(37)) - plugin.points_in(rules_of(36)) == {"preFilter"}
    devices = {"preEnqueue", "preFilter", "filter", "postFilter", "reserve", "preBind"}
    assert [DynamicResources.points_in(rules_of(minor)) for minor in (33, 34, 35)] == [
        set(),
        devices,
        devices | {"score"},
    ]


def test_a_plugin_serves_its_points_while_its_gate_is_off() -> None:
    assert DynamicResources.points_in(rules_of(33, {"DynamicResourceAllocation": True})) == set()
    off = rules_of(34, {"DynamicResourceAllocation": False})
    assert DynamicResources.points_in(off) == DynamicResources.points_in(rules_of(34))
    served = [NodeDeclaredFeatures.points_in(rules_of(minor)) for minor in (34, 35, 36)]
    assert served == [set(), {"preFilter", "filter"}, {"preFilter", "filter"}]


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


class ByName(QueueSort):
    """Says only which of two pods comes first."""

    name = "ByName"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return first.pod.metadata.name < second.pod.metadata.name


def named(name: str) -> QueuedPod:
    return QueuedPod(Pod(ObjectMeta(name=name)), 0.0)


def test_pods_sort_as_less_says() -> None:
    plugin = ByName(None, make_handle(Cluster()))
    keys = [plugin.sort_key(named(name)) for name in "abc"]
    assert all(first < second and not second < first for first, second in pairwise(keys))
    assert keys[0] == plugin.sort_key(named("a"))


def test_a_pod_that_changes_sorts_as_before_until_it_is_sorted_again() -> None:
    plugin = ByName(None, make_handle(Cluster()))
    queued = named("a")
    key = plugin.sort_key(queued)
    queued.pod = Pod(ObjectMeta(name="z"))
    assert key < plugin.sort_key(named("b"))

import json
from pathlib import Path

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.effective_plugins import effective_profiles
from extender_service.config.loading import default_config
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import NODE, ActionType
from extender_service.framework.interface import extension_points
from extender_service.framework.registry.registry import Registry
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from tests.support.stub_plugins import make_handle

GOLDEN = Path(__file__).parents[1] / "config" / "golden"
DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_every_plugin_has_one_name_of_its_own() -> None:
    names = [plugin.name for plugin in IN_TREE]
    assert len(set(names)) == len(names)
    assert [plugin.__name__ for plugin in IN_TREE] == names


def test_the_default_profile_has_kube_schedulers_plugins_and_weights() -> None:
    points_of = {plugin.name: extension_points(plugin) for plugin in IN_TREE}
    (effective,) = effective_profiles(default_config(ARGS_TYPES), points_of).values()
    assert {plugin.name for plugins in effective.values() for plugin in plugins} <= set(points_of)
    weights = {plugin.name: plugin.weight for plugin in effective["score"]}
    assert DEFAULT_WEIGHTS.items() <= weights.items()


# Plugins of kube-scheduler that this program does not serve in the release, and those of tests in the golden files.
NOT_SERVED = {
    31: {"DynamicResources", "ExampleBinder", "ExampleFit", "ExampleSort"},
    37: {"DeferredPodScheduling", "GangScheduling", "PodGroupPodsCount", "TopologyPlacementGenerator"},
}


@pytest.mark.parametrize(("minor", "file"), [(31, "extension_points"), (37, "extension_points_1_37")])
def test_every_plugin_has_the_extension_points_of_the_release(minor: int, file: str) -> None:
    [golden] = json.loads((GOLDEN / f"{file}.json").read_text())
    theirs = {name: set(points) for name, points in golden.items() if name not in NOT_SERVED[minor]}
    served = {plugin.name: plugin.points_in(rules_of(minor)) for plugin in IN_TREE}
    served.pop("NodeLabel")  # which kube-scheduler no longer has
    assert {name: points for name, points in served.items() if points} == theirs


def test_the_arguments_of_every_plugin_that_has_some_are_read_with_the_configuration() -> None:
    assert {plugin.name for plugin in IN_TREE if plugin.args_type is not None} == ARGS_TYPES.keys()
    assert {name: args_type().model_dump()["kind"] for name, args_type in ARGS_TYPES.items()} == {
        name: f"{name}Args" for name in ARGS_TYPES
    }


@pytest.mark.parametrize("minor", [32, 33])
def test_without_hints_plugins_name_the_updates_of_nodes_and_always_labels_and_taints(minor: int) -> None:
    rules = rules_of(minor, {"SchedulerQueueingHints": False})
    profiles = Registry(IN_TREE, rules=rules).profiles(default_config(ARGS_TYPES, rules), make_handle(Cluster(rules)))
    (profile,) = profiles.values()
    wanted = {
        plugin.name: event.action for plugin in profile.rejecting for event in plugin.retry_on if event.resource == NODE
    }
    shown = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    assert wanted.pop("NodeResourcesFit") == shown | ActionType.UPDATE_NODE_ALLOCATABLE
    assert wanted.pop("PodTopologySpread") == shown | ActionType.DELETE
    assert wanted == dict.fromkeys(
        (
            "InterPodAffinity",
            "NodeAffinity",
            "NodeName",
            "NodePorts",
            "NodeUnschedulable",
            "TaintToleration",
            "VolumeBinding",
            "VolumeRestrictions",
            "VolumeZone",
        ),
        shown,
    )

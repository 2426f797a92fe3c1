from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.config.loading import default_config, parse_config
from extender_service.config.problems import ConfigError
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import Code
from extender_service.kube.types.core import Pod
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.plugins.node_label import OTHER_LABELS, NodeLabel, NodeLabelArgs
from extender_service.testing import Trial
from tests.support.objects import make_node

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeLabel, weight: 3}]}}
  pluginConfig:
  - name: NodeLabel
    args: %s
"""

keys = st.sampled_from("abcd")
lists_of_keys = st.lists(keys, max_size=4).map(tuple)
args = st.builds(
    NodeLabelArgs,
    present_labels=lists_of_keys,
    absent_labels=lists_of_keys,
    present_labels_preference=lists_of_keys,
    absent_labels_preference=lists_of_keys,
)
# A value may be empty: only the key counts.
labels = st.dictionaries(keys, st.sampled_from(["", "true", "false"]))


def fits(args: NodeLabelArgs, labels: Mapping[str, str]) -> bool:
    return all(key in labels for key in args.present_labels) and all(key not in labels for key in args.absent_labels)


def score(args: NodeLabelArgs, labels: Mapping[str, str]) -> int:
    held = [key in labels for key in args.present_labels_preference]
    held += [key not in labels for key in args.absent_labels_preference]
    return sum(100 for holds in held if holds) // len(held) if held else 0


@given(args, st.lists(labels, min_size=1, max_size=5))
def test_nodes_are_judged_and_scored_as_one_by_one(args: NodeLabelArgs, labels_of: list[dict[str, str]]) -> None:
    by_name = {f"node-{number}": labels for number, labels in enumerate(labels_of)}
    trial = Trial(make_node(name, labels=labels) for name, labels in by_name.items())
    plugin = NodeLabel(args, trial.handle)

    refusals = trial.refusals(plugin, Pod())
    nodes = trial.cluster.view(None)
    scores = plugin.score(CycleState(Pod()), Pod(), nodes)

    reason = "node(s) didn't have the requested labels"
    assert refusals == {name: reason for name, labels in by_name.items() if not fits(args, labels)}
    assert scores[nodes.exists].tolist() == [score(args, labels) for labels in labels_of]


def test_taking_pods_away_does_not_help() -> None:
    assert OTHER_LABELS.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_it_is_known_by_name_and_off_by_default() -> None:
    registry, handle = Registry(IN_TREE), Trial().handle

    [default] = registry.profiles(default_config(ARGS_TYPES), handle).values()
    config = parse_config(CONFIG % "{presentLabels: [ready], absentLabelsPreference: [spot]}", ARGS_TYPES)
    [named] = registry.profiles(config, handle).values()

    assert not any(isinstance(plugin, NodeLabel) for plugin in default.filter)
    [(plugin, weight)] = [(plugin, weight) for plugin, weight in named.score if isinstance(plugin, NodeLabel)]
    assert plugin.args == NodeLabelArgs(present_labels=("ready",), absent_labels_preference=("spot",))
    assert plugin in named.filter
    assert weight == 3


@pytest.mark.parametrize("suffix", ["", "Preference"])
def test_a_label_cannot_be_wanted_and_unwanted(suffix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(CONFIG % f"{{presentLabels{suffix}: [a, b], absentLabels{suffix}: [c, b]}}", ARGS_TYPES)

    path = "profiles[0].pluginConfig[0].args"
    [problem] = caught.value.problems
    assert str(problem) == (
        f'{path}.presentLabels{suffix}[1]: Invalid value: "b": conflict with {path}.absentLabels{suffix}[1]'
    )

import re

import pytest

from extender_service.config.defaulting import default_plugins
from extender_service.config.effective_plugins import effective_profiles
from extender_service.config.loading import parse_config
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE

TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POINTS_OF: dict[str, set[str]] = {plugin.name: {"filter", "score"} for plugin in default_plugins(DEFAULT_RULES)}
POINTS_OF |= {"PrioritySort": {"queueSort"}, "DefaultBinder": {"bind"}, "Mine": {"filter", "score"}, "Gate": {"permit"}}


def points_in(rules: Rules) -> dict[str, set[str]]:
    return {plugin.name: points for plugin in IN_TREE if (points := plugin.points_in(rules))}


def refused(body: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(TYPE + body, ARGS_TYPES), POINTS_OF)
    return caught.value.problems


def test_users_plugin_runs_after_the_defaults_with_its_weight() -> None:
    profile = "{plugins: {multiPoint: {enabled: [{name: Mine, weight: 5}]}}}"
    config = parse_config(TYPE + f"profiles: [{profile}]\n", ARGS_TYPES)
    plugins = effective_profiles(config, POINTS_OF)["default-scheduler"]
    last = plugins["score"][-1]
    assert (last.name, last.weight) == ("Mine", 5)
    assert plugins["filter"][-1].weight == 0
    assert plugins["permit"] == ()


@pytest.mark.parametrize("is_on", [False, True])
def test_dynamic_resources_is_refused_before_1_34_with_the_reason(is_on: bool) -> None:
    rules = rules_of(33, {"DynamicResourceAllocation": is_on})
    text = f"{TYPE}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: DynamicResources}}]}}}}}}]\n"
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(text, ARGS_TYPES, rules), points_in(rules))
    [problem] = caught.value.problems
    assert problem.path == "profiles[0].plugins.multiPoint.enabled[DynamicResources]"
    assert problem.message == "not supported before 1.34, with any feature gates: remove the plugin"


@pytest.mark.parametrize(
    ("minor", "gates", "plugins", "point"),
    [
        (34, {"DynamicResourceAllocation": False}, "multiPoint: {enabled: [{name: DynamicResources}]}", "reserve"),
        (34, {}, "preBind: {enabled: [{name: DynamicResources}]}", "preBind"),
        (35, {}, "multiPoint: {enabled: [{name: NodeDeclaredFeatures}]}", "filter"),
        (37, {}, "preFilter: {enabled: [{name: TaintToleration}, {name: NodeUnschedulable}]}", "preFilter"),
    ],
)
def test_plugins_of_a_release_can_be_enabled_where_they_do_nothing(
    minor: int, gates: dict[str, bool], plugins: str, point: str
) -> None:
    rules = rules_of(minor, gates)
    config = parse_config(f"{TYPE}profiles: [{{plugins: {{{plugins}}}}}]\n", ARGS_TYPES, rules)
    [effective] = effective_profiles(config, points_in(rules)).values()
    assert set(re.findall(r"name: (\w+)", plugins)) <= {each.name for each in effective[point]}


@pytest.mark.parametrize(
    ("minor", "point", "said"),
    [
        (35, "placementGenerate", "unknown field: 1.35 does not have it"),
        (36, "placementGenerate", None),
        (36, "placementScore", None),
        (36, "podGroupPostFilter", "unknown field: 1.36 does not have it"),
        (37, "podGroupPostFilter", None),
    ],
)
def test_points_of_groups_of_pods_are_known_from_their_release_on(minor: int, point: str, said: str | None) -> None:
    rules = rules_of(minor)
    text = f"{TYPE}profiles: [{{plugins: {{{point}: {{disabled: [{{name: '*'}}]}}}}}}]\n"
    if said is None:
        points_of = points_in(rules)
        [plugins] = effective_profiles(parse_config(text, ARGS_TYPES, rules), points_of).values()
        assert point not in plugins
        return
    with pytest.raises(ConfigError) as caught:
        parse_config(text, ARGS_TYPES, rules)
    assert [str(problem) for problem in caught.value.problems] == [f"profiles[0].plugins.{point}: {said}"]


@pytest.mark.parametrize(
    ("minor", "name", "says"),
    [
        (32, "EBSLimits", "kube-scheduler has it up to 1.31"),
        (37, "CinderLimits", "kube-scheduler has it up to 1.31"),
        (34, "NodeDeclaredFeatures", "kube-scheduler has it from 1.35 on"),
    ],
)
def test_a_plugin_that_only_other_releases_have_is_refused_with_these(minor: int, name: str, says: str) -> None:
    rules = rules_of(minor)
    text = f"{TYPE}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]\n"
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(text, ARGS_TYPES, rules), points_in(rules))
    [problem] = caught.value.problems
    assert problem.message.startswith(f"{says}, remove the plugin")


def test_plugins_of_groups_of_pods_are_refused_with_the_reason() -> None:
    rules = rules_of(37)
    points_of = points_in(rules)
    text = (
        f"{TYPE}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: GangScheduling}}]}}, "
        "placementScore: {enabled: [{name: PodGroupPodsCount}]}}}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(text, ARGS_TYPES, rules), points_of)
    assert [problem.message for problem in caught.value.problems] == [
        "not supported: this program does not schedule groups of pods, remove the plugin",
        "not supported: this program does not schedule groups of pods, remove the plugin",
    ]


@pytest.mark.parametrize(
    ("minor", "point", "name"),
    [
        (37, "podGroupPostFilter", "DefaultPreemption"),
        (37, "podGroupPostFilter", "DynamicResources"),
        (36, "placementScore", "NodeResourcesFit"),
        (37, "placementGenerate", "NodeName"),
    ],
)
def test_no_plugin_can_be_enabled_for_groups_of_pods(minor: int, point: str, name: str) -> None:
    rules = rules_of(minor)
    text = f"{TYPE}profiles: [{{plugins: {{{point}: {{enabled: [{{name: {name}}}]}}}}}}]\n"
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(text, ARGS_TYPES, rules), points_in(rules))
    assert [str(problem) for problem in caught.value.problems] == [
        (
            f"profiles[0].plugins.{point}.enabled[0]: "
            "not supported: this program does not schedule groups of pods, remove the plugin"
        )
    ]


LOAD_IT = "load it by --plugin MODULE:CLASS, or install its package"


def test_an_unknown_plugin_is_refused_with_the_likely_right_one_and_how_to_load_one() -> None:
    problems = refused("profiles: [{plugins: {filter: {enabled: [{name: NodeResourceFit}, {name: Xyzzy}]}}}]\n")
    assert [problem.message for problem in problems] == [
        f'plugin "NodeResourceFit" does not exist: did you mean NodeResourcesFit? If not, {LOAD_IT}',
        f'plugin "Xyzzy" does not exist: {LOAD_IT}',
    ]


def test_an_unknown_plugin_in_multi_point_has_a_place_that_the_file_has() -> None:
    """The defaults, which multiPoint has besides, are not in the file."""
    [problem] = refused("profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}, {name: Xyzzy}]}}}]\n")
    assert str(problem) == f'profiles[0].plugins.multiPoint.enabled[Xyzzy]: plugin "Xyzzy" does not exist: {LOAD_IT}'


def test_a_weight_below_0_is_refused_with_its_plugin() -> None:
    [problem] = refused("profiles: [{plugins: {score: {enabled: [{name: Mine, weight: -1}]}}}]\n")
    assert str(problem) == (
        "profiles[0].plugins.score: total score of Score plugins could overflow: give Mine (now -1) a weight above 0"
    )


def test_every_plugin_that_cannot_run_is_said() -> None:
    problems = refused(
        "profiles:\n"
        "- {schedulerName: a, plugins: {filter: {enabled: [{name: Nonesuch}, {name: Gate}]}}}\n"
        "- {schedulerName: c, plugins: {permit: {enabled: [{name: Gate}, {name: Gate}]}, score: {enabled: [{}]}}}\n"
        "- {schedulerName: d, plugins: {multiPoint: {disabled: [{name: '*'}]}}}\n"
    )
    assert [problem.path for problem in problems] == [
        "profiles[0].plugins.filter.enabled[0]",
        "profiles[0].plugins.filter.enabled[1]",
        "profiles[1].plugins.score.enabled[0]",
        "profiles[1].plugins.permit.enabled[1]",
        "profiles[2].plugins.queueSort",
        "profiles[2].plugins.bind",
    ]

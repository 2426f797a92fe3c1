from pathlib import Path

import pytest

from extender_service.config.loading import default_config, load_config, parse_config
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.rules import rules_of
from extender_service.plugins.in_tree import ARGS_TYPES

TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def refused(text: str, minor: int = 31) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, ARGS_TYPES, rules_of(minor))
    return caught.value.problems


def test_file_is_loaded_with_every_default(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(TYPE)
    assert load_config(file, ARGS_TYPES) == default_config(ARGS_TYPES)


def test_without_a_file_plugins_can_be_enabled_besides_the_default_ones() -> None:
    [default], [profile] = (default_config(ARGS_TYPES, plugins=names).profiles for names in ((), ("Mine", "Yours")))
    assert profile.scheduler_name == default.scheduler_name == "default-scheduler"
    enabled, own = profile.plugins.multi_point.enabled, ["Mine", "Yours"]
    assert [each.name for each in enabled] == [*(each.name for each in default.plugins.multi_point.enabled), *own]


def test_error_names_file_and_field_in_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(TYPE + "parallelism: 0\nprofiles: [{percentageOfNodesToScore: 101}]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file, ARGS_TYPES)
    assert str(caught.value).splitlines() == [
        f"{file}: parallelism: Invalid value: 0: should be an integer value greater than zero",
        f"{file}: profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]


def test_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "none.yaml", ARGS_TYPES)


def test_file_that_is_not_text_is_said(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read: it is not UTF-8 text"):
        load_config(file, ARGS_TYPES)


def test_old_version_is_refused_with_the_one_that_is_right() -> None:
    [problem] = refused("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n")
    assert str(problem) == (
        'apiVersion: Unsupported value: "kubescheduler.config.k8s.io/v1beta3": '
        'supported values: "kubescheduler.config.k8s.io/v1"'
    )


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("paralellism: 3", "paralellism: unknown field: did you mean parallelism?"),
        ("xyzzy: 3", "xyzzy: unknown field"),
        ("parallelism: two", 'parallelism: Invalid value: "two": must be a whole number'),
        ("parallelism: 3000000000", "parallelism: Invalid value: 3000000000: must be at most 2147483647"),
        ("profiles: {}", "profiles: Invalid value: must be a list"),
        ("leaderElection: []", "leaderElection: Invalid value: must be a mapping"),
        ("enableProfiling: 1", "enableProfiling: Invalid value: 1: must be true or false"),
        (
            "extenders: [{urlPrefix: 8080}]",
            "extenders[0].urlPrefix: Invalid value: 8080: must be text; put it in quotes",
        ),
        (
            "leaderElection: {leaseDuration: '15'}",
            (
                'leaderElection.leaseDuration: Invalid value: "15": missing unit in duration "15": '
                "units are ns, us, ms, s, m and h"
            ),
        ),
    ],
)
def test_wrong_field_is_said_with_what_would_be_right(field: str, message: str) -> None:
    assert [str(problem) for problem in refused(TYPE + field)] == [message]


def test_unknown_duplicate_and_mistyped_fields_are_said_together() -> None:
    problems = refused(TYPE + "parallelism: x\nfoo: 1\nparallelism: y\nprofiles: [{bar: 2}]\n")
    assert sorted(problem.path for problem in problems) == ["foo", "parallelism", "parallelism", "profiles[0].bar"]


def test_duration_is_shown_as_it_is_written() -> None:
    [problem] = refused(TYPE + "leaderElection: {retryPeriod: -90s}\n")
    assert str(problem) == "leaderElection.retryPeriod: Invalid value: -1m30s: must be greater than zero"


@pytest.mark.parametrize(
    "data", ["|\n      Y2VydGlm\n      aWNhdGU=\n", '"Y2VydGlm\\r\\naWNhdGU="', "Y2VydGlmaWNhdGV="]
)
def test_base64_may_have_line_breaks_and_is_kept_as_go_prints_it(data: str) -> None:
    extender = f"  - urlPrefix: http://x\n    filterVerb: f\n    tlsConfig:\n     caData: {data}"
    [found] = parse_config(f"{TYPE}extenders:\n{extender}\n", ARGS_TYPES).extenders
    assert found.tls_config is not None
    assert found.tls_config.ca_data == "Y2VydGlmaWNhdGU="


@pytest.mark.parametrize("data", ["'Y2Vy dGlm'", "Y2VydGlmaWNhdGU", "Y2Vyd-lm", "ü"])
def test_what_is_no_base64_is_refused(data: str) -> None:
    [problem] = refused(f"{TYPE}extenders: [{{urlPrefix: x, filterVerb: f, tlsConfig: {{keyData: {data}}}}}]\n")
    assert problem.path == "extenders[0].tlsConfig.keyData"
    assert problem.message.endswith(": must be base64")


def test_resources_that_extenders_ignore_are_ignored_by_every_profile() -> None:
    config = parse_config(
        TYPE
        + "profiles: [{schedulerName: a}, {schedulerName: b}]\n"
        + "extenders: [{managedResources: [{name: example.com/gpu, ignoredByScheduler: true}, {name: a.com/b}]}]\n",
        ARGS_TYPES,
    )
    assert config.ignored_extended_resources() == ("example.com/gpu",)
    assert [profile.args("NodeResourcesFit").ignored_resources for profile in config.profiles] == [
        ("example.com/gpu",),
        ("example.com/gpu",),
    ]


def test_arguments_of_a_plugin_that_is_off_are_dropped() -> None:
    profile = "{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}"
    config = parse_config(TYPE + f"profiles: [{profile}]\n", ARGS_TYPES)
    assert config.profiles[0].args("InterPodAffinity") is None
    assert config.profiles[0].args("NodeAffinity") is not None


_UNSORTED = """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: [{utilization: 10}, {utilization: 5}]}
"""


@pytest.mark.parametrize(
    ("text", "until_1_33", "from_1_34_on"),
    [
        (
            "leaderElection: {leaseDuration: 5s, renewDeadline: 5s}",
            "Invalid value: 5s: LeaseDuration must be greater than RenewDeadline",
            'Invalid value: "5s": must be greater than `RenewDeadline`',
        ),
        (
            "leaderElection: {retryPeriod: -1s}",
            "Invalid value: -1s: must be greater than zero",
            'Invalid value: "-1s": must be greater than zero',
        ),
        (
            _UNSORTED,
            "Invalid value: 5: utilization values must be sorted in increasing order",
            "Invalid value: 5: values must be sorted in increasing order",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {disabled: [{name: Other}]}}}]",
            "queueSort must be the same for all profiles",
            "}: must be the same for all profiles",
        ),
    ],
    ids=["lease", "duration", "shape", "queue sort"],
)
def test_errors_are_worded_as_in_each_release(text: str, until_1_33: str, from_1_34_on: str) -> None:
    for minor, expected in ((31, until_1_33), (33, until_1_33), (34, from_1_34_on), (37, from_1_34_on)):
        [problem] = refused(TYPE + text, minor)
        assert problem.message.endswith(expected), minor

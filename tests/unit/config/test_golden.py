"""The config room against kube-scheduler v1.31.1, which wrote golden/*.json (tests/golden/config)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_service.config.dump import dump_config
from extender_service.config.effective_plugins import effective_profiles
from extender_service.config.loading import default_config, parse_config
from extender_service.config.problems import ConfigError, Problem
from extender_service.config.rules import Rules, rules_of
from extender_service.plugins.in_tree import ARGS_TYPES

FOLDER = Path(__file__).parent / "golden"
NESTED_ARGS = re.compile(r"decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]): ")


def golden(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return cases


VALID = golden("valid")
INVALID = golden("invalid")
[POINTS_OF] = golden("extension_points")
DEFAULT = VALID[0]


def rules_for(case: dict[str, Any]) -> Rules:
    return rules_of(31, {"VolumeCapacityPriority": case.get("volumeCapacityPriority", False)})


def effective(case: dict[str, Any]) -> dict[str, dict[str, list[list[Any]]]]:
    """What runs: the default profile's plugins, where the case says nothing else."""
    default = DEFAULT["effective"]["default-scheduler"]
    return {
        name: {point: plugins for point, plugins in {**default, **points}.items() if plugins}
        for name, points in case["effective"].items()
    }


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_valid_configuration_prints_as_kube_scheduler_writes_it(case: dict[str, Any]) -> None:
    config = parse_config(case["config"], ARGS_TYPES, rules_for(case))
    written = {**DEFAULT["written"], **case["written"]}
    assert yaml.safe_load(dump_config(config)) == written


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_what_was_printed_loads_as_the_same_configuration(case: dict[str, Any]) -> None:
    printed = dump_config(parse_config(case["config"], ARGS_TYPES, rules_for(case)))
    assert dump_config(parse_config(printed, ARGS_TYPES, rules_for(case))) == printed


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_plugins_run_where_and_in_the_order_in_which_kube_scheduler_runs_them(case: dict[str, Any]) -> None:
    config = parse_config(case["config"], ARGS_TYPES, rules_for(case))
    profiles = effective_profiles(config, POINTS_OF)
    assert {
        name: {point: [[each.name, each.weight] for each in plugins] for point, plugins in points.items() if plugins}
        for name, points in profiles.items()
    } == effective(case)


def test_without_a_file_the_defaults_hold() -> None:
    assert yaml.safe_load(dump_config(default_config(ARGS_TYPES, rules_of(31)))) == DEFAULT["written"]


def problems_of(case: dict[str, Any]) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        effective_profiles(parse_config(case["config"], ARGS_TYPES, rules_for(case)), POINTS_OF)
    return caught.value.problems


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["name"])
def test_invalid_configuration_is_refused_with_the_same_field_paths(case: dict[str, Any]) -> None:
    paths = sorted(problem.path for problem in problems_of(case))
    assert paths == sorted(case.get("paths") or expected_paths(case))


@pytest.mark.parametrize(
    "case", [case for case in INVALID if case["stage"] == "validate"], ids=lambda case: case["name"]
)
def test_validation_says_the_same(case: dict[str, Any]) -> None:
    ours = sorted(problems_of(case))
    theirs = sorted((error["path"], error["message"]) for error in case["errors"])
    for problem, (path, message) in zip(ours, theirs, strict=True):
        start, _, end = message.partition("…")
        assert problem.path == path
        assert problem.message.startswith(start)
        assert problem.message.endswith(end)


@pytest.mark.parametrize(
    "case",
    [case for case in INVALID if case["stage"] == "start" and not case["errors"][0]["message"].startswith("panic")],
    ids=lambda case: case["name"],
)
def test_what_stops_the_start_is_said_in_the_same_words(case: dict[str, Any]) -> None:
    [theirs] = [error["message"].lower() for error in case["errors"]]
    for problem in problems_of(case):
        rule, _, advice = problem.message.lower().rpartition(": ")
        assert problem.message.lower() in theirs or (advice and rule and rule in theirs)


def test_the_tables_are_large_enough() -> None:
    assert len(VALID) >= 30
    assert len(INVALID) >= 60


def expected_paths(case: dict[str, Any]) -> list[str]:
    """The paths that kube-scheduler's errors name, those of a plugin's arguments made absolute."""
    paths = []
    for error in case["errors"]:
        if "path" in error:
            paths.append(error["path"])
        elif case["stage"] == "start":
            # NodeResourcesFit's arguments are validated when the plugin is made, with paths below the arguments.
            paths += [f"profiles[0].pluginConfig[0].args.{path}" for path in re.findall(PLUGIN_PATH, error["message"])]
        else:
            paths.append(decoded_path(error["message"]))
    return paths


PLUGIN_PATH = r"[\[ ]((?:scoringStrategy|ignoredResource)[\w.\[\]]*): "


def decoded_path(message: str) -> str:
    nested = NESTED_ARGS.match(message)
    prefix = f"{nested[1]}.args." if nested else ""
    strict = re.search(r'(?:unknown|duplicate) field "(.*)"$', message)
    if strict:
        return prefix + strict[1]
    mismatch = re.search(r"Go struct field \w+\.([\w.]+) of type", message)
    assert mismatch is not None, f"kube-scheduler names no path: {message}"
    return prefix + mismatch[1]

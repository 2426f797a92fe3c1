from collections.abc import Iterator
from typing import ClassVar, Literal, Self

import pytest
from pydantic import ValidationError

from extender_service.config.args import PluginArgs
from extender_service.config.loading import parse_config
from extender_service.config.problems import ConfigError, Problem, out_of_range
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of

TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class SizeArgs(PluginArgs):
    """Arguments whose default is 2, with the feature gate 3, and which may be at most 9."""

    kind: Literal["SizeArgs"] = "SizeArgs"
    size: int = 2

    def with_defaults(self, rules: Rules) -> Self:
        is_default = "size" not in self.model_fields_set
        return self.model_copy(update={"size": 3}) if is_default and rules.scores_volume_capacity else self

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        if self.size > (9 if rules.scores_volume_capacity else 5):
            yield out_of_range(f"{path}.size", self.size, "[0, 9]")


class LateArgs(SizeArgs):
    """Those that are checked where the plugin is on."""

    checked_when_off: ClassVar[bool] = False


ARGS_TYPES = {"Sized": SizeArgs, "Late": LateArgs}
GATE = rules_of(31, {"VolumeCapacityPriority": True})


def profile(plugin_config: str, enabled: str = "{name: Sized}, {name: Late}") -> str:
    return f"{TYPE}profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}, pluginConfig: [{plugin_config}]}}]\n"


def args_of(text: str, rules: Rules = DEFAULT_RULES) -> dict[str, object]:
    [only] = parse_config(text, ARGS_TYPES, rules).profiles
    return {each.name: each.args for each in only.plugin_config}


def refused(text: str, rules: Rules = DEFAULT_RULES) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, ARGS_TYPES, rules)
    return [str(problem) for problem in caught.value.problems]


def test_a_plugin_that_is_on_has_arguments_of_its_type_and_no_other_plugin_has() -> None:
    assert args_of(profile("")) == {"Late": LateArgs(), "Sized": SizeArgs()}
    assert args_of(profile("{name: Sized, args: {size: 4}}", "{name: Sized}")) == {"Sized": SizeArgs(size=4)}
    assert args_of(profile("{name: Mine, args: {size: 4}}", "{name: Mine}")) == {"Mine": {"size": 4}}


def test_defaults_may_depend_on_feature_gates() -> None:
    assert args_of(profile("", "{name: Sized}"), GATE) == {"Sized": SizeArgs(size=3)}
    assert args_of(profile("{name: Sized, args: {size: 2}}", "{name: Sized}"), GATE) == {"Sized": SizeArgs(size=2)}


def test_fields_are_read_strictly() -> None:
    assert refused(profile("{name: Sized, args: {sise: 4, kind: Args}}, {name: Late, args: {size: '4'}}")) == [
        "profiles[0].pluginConfig[0].args.kind: Invalid value: \"Args\": must be 'SizeArgs'",
        "profiles[0].pluginConfig[0].args.sise: unknown field: did you mean size?",
        'profiles[0].pluginConfig[1].args.size: Invalid value: "4": must be a whole number',
    ]


def test_checks_name_the_field_and_may_depend_on_feature_gates() -> None:
    text = profile("{name: Other}, {name: Sized, args: {size: 6}}", "{name: Sized}")
    assert refused(text) == ["profiles[0].pluginConfig[1].args.size: Invalid value: 6: not in valid range [0, 9]"]
    assert args_of(text, GATE) == {"Sized": SizeArgs(size=6)}


def test_arguments_are_checked_when_the_plugin_is_off_unless_their_type_says_otherwise() -> None:
    wrong = "{name: Late, args: {size: 10}}, {name: Sized, args: {size: 11}}"
    of_late = "profiles[0].pluginConfig[0].args.size: Invalid value: 10: not in valid range [0, 9]"
    of_sized = "profiles[0].pluginConfig[1].args.size: Invalid value: 11: not in valid range [0, 9]"
    assert refused(profile(wrong)) == [of_sized, of_late]
    assert refused(profile(wrong, "")) == [of_sized]


def test_arguments_are_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        SizeArgs().size = 3

import pytest

from extender_service.config.dump import dump_config
from extender_service.config.loading import default_config, parse_config
from extender_service.plugins.in_tree import ARGS_TYPES

TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_fields_are_printed_in_the_order_of_their_names() -> None:
    printed = dump_config(default_config(ARGS_TYPES))
    top = [line.partition(":")[0] for line in printed.splitlines() if line[0].isalpha()]
    assert top == sorted(top)
    assert printed.startswith(
        "apiVersion: kubescheduler.config.k8s.io/v1\nclientConnection:\n  acceptContentTypes: ''\n"
    )


def test_arguments_are_printed_with_version_and_kind() -> None:
    printed = dump_config(default_config(ARGS_TYPES))
    assert (
        "  - args:\n"
        "      apiVersion: kubescheduler.config.k8s.io/v1\n"
        "      bindTimeoutSeconds: 600\n"
        "      kind: VolumeBindingArgs\n"
        "    name: VolumeBinding\n"
    ) in printed


@pytest.mark.parametrize("text", ["y", "N", "1e2", "08", "0o17", "0X1F", "1_000", "+.5", "", "~", "true", "7", "1:30"])
def test_a_text_that_looks_like_another_value_loads_as_text_again(text: str) -> None:
    args = f"{{'{text}': ['{text}', {{'{text}': x}}]}}"
    profile = f"{{plugins: {{filter: {{enabled: [{{name: Mine}}]}}}}, pluginConfig: [{{name: Mine, args: {args}}}]}}"
    name = text or "y"
    config = parse_config(f"{TYPE}leaderElection: {{resourceName: '{name}'}}\nprofiles: [{profile}]\n", ARGS_TYPES)
    again = parse_config(dump_config(config), ARGS_TYPES)
    assert again.leader_election.resource_name == name
    assert again.profiles[0].args("Mine") == {text: [text, {text: "x"}]}


def test_other_texts_are_printed_without_quotes() -> None:
    config = parse_config(f"{TYPE}leaderElection: {{resourceName: '2.x'}}\n", ARGS_TYPES)
    assert "  resourceName: 2.x\n" in dump_config(config)

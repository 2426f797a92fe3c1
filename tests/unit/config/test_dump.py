from extender_service.config.dump import dump_config
from extender_service.config.loading import default_config
from extender_service.plugins.in_tree import ARGS_TYPES


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

"""What kube-scheduler v1.37.2 says is in test_known_gates."""

import pytest

from extender_service.config.gate_dependencies import gate_dependencies, unmet_dependencies
from extender_service.config.known_gates import known_gates


@pytest.mark.parametrize("minor", range(31, 38))
def test_the_defaults_of_a_release_go_together(minor: int) -> None:
    defaults = {name: gate.default for name, gate in known_gates(minor).items()}
    assert list(unmet_dependencies(defaults, minor)) == []


def test_releases_before_1_35_have_no_dependencies() -> None:
    assert [len(gate_dependencies(minor)) for minor in range(31, 38)] == [0, 0, 0, 0, 33, 49, 58]


def test_what_a_gate_depends_on_may_change() -> None:
    found = [gate_dependencies(minor).get("WindowsCPUAndMemoryAffinity") for minor in (34, 35, 36)]
    assert found == [None, ["MemoryManager"], None]
    hosts = [gate_dependencies(minor)["UserNamespacesHostNetworkSupport"] for minor in (35, 37)]
    assert hosts == [["UserNamespacesSupport"], ["NodeDeclaredFeatures", "UserNamespacesSupport"]]

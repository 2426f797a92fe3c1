"""Fixtures of the end-to-end tests: a real control plane, started for a test or for a test file.

    def test_something(control_plane: ControlPlane) -> None:
        control_plane.api.create(node("a"), pod("p", requests={"cpu": "1"}))
        control_plane.start_scheduler({"profiles": [{"schedulerName": "default-scheduler"}]})
        wait_until(lambda: control_plane.api.get("Pod", "p", namespace="default")["spec"].get("nodeName"), "a node")

Without Go these tests are skipped; with CI=true in the environment they fail.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import go_programs
from tests.e2e.control_plane import ControlPlane

NEEDS_GO = "end-to-end tests need Go (https://go.dev/dl) to build a real control plane"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Don't count the first build of the control plane, which takes minutes, towards a test's time-out."""
    for item in items:
        if "controlplane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300, func_only=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line why tests were skipped, also when nobody asked for reasons."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if NEEDS_GO in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"Skipped {len(skipped)}: {NEEDS_GO}")


@pytest.fixture(scope="session")
def controlplane() -> Path:
    """The binary, built once for each state of its sources."""
    if go_programs.has_go():
        return go_programs.build(Path(__file__).with_name("controlplane"))
    if os.environ.get("CI") == "true":
        pytest.fail(f"{NEEDS_GO}, and with CI=true none may be skipped", pytrace=False)
    pytest.skip(NEEDS_GO)


@pytest.fixture
def control_plane(controlplane: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of this test's own, empty. Starts in about 3 s; its files are in the test's tmp_path."""
    with ControlPlane(controlplane, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def shared_control_plane(controlplane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests of a file that ask for it: each leaves behind what it creates."""
    with ControlPlane(controlplane, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def empty_cluster(shared_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The file's shared control plane; all nodes and pods are deleted after the test."""
    yield shared_control_plane
    api = shared_control_plane.api
    api.delete(*api.list_all("Pod"), *api.list_all("Node"))

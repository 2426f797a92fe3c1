"""Fixtures of the end-to-end tests: a real control plane, started for a test or for a test file.

    def test_something(control_plane: ControlPlane) -> None:
        control_plane.api.create(node("a"), pod("p", requests={"cpu": "1"}))
        control_plane.start_scheduler({"profiles": [{"schedulerName": "default-scheduler"}]})
        wait_until(lambda: control_plane.api.get("Pod", "p", namespace="default")["spec"].get("nodeName"), "a node")

Without Go these tests are skipped; with CI=true in the environment they fail.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance import oracle
from tests.e2e.support.control_plane import ControlPlane


@pytest.fixture(scope="session")
def controlplane(build_go: Callable[[Path], Path]) -> Path:
    """The binary, built once for each state of its sources."""
    return build_go(Path(__file__).with_name("controlplane"))


@pytest.fixture(scope="session")
def ask_oracle(build_go: Callable[[Path], Path]) -> Callable[[bytes], bytes]:
    """The oracle, built: tells kube-scheduler's own plugins' verdicts on cases."""
    build_go(oracle.ORACLE)
    return oracle.ask


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

"""Fixtures of the end-to-end tests: a real control plane, started for a test or for a test file.

    def test_something(control_plane: ControlPlane) -> None:
        control_plane.api.create(node("a"), pod("p", requests={"cpu": "1"}))
        control_plane.start_scheduler({"profiles": [{"schedulerName": "default-scheduler"}]})
        wait_until(lambda: control_plane.api.get("Pod", "p", namespace="default")["spec"].get("nodeName"), "a node")

The control plane is v1.31.1. `releases.both_releases` runs a test with that and with the newest one:

    @both_releases
    def test_something(control_plane: ControlPlane, minor: int) -> None:

Without Go these tests are skipped; with CI=true in the environment they fail.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from extender_service.config.release import OLDEST_MINOR
from tests.conformance import oracle
from tests.e2e.support.programs.control_plane import PROGRAMS, ControlPlane


@pytest.fixture(scope="session")
def minor(request: pytest.FixtureRequest) -> int:
    """Which release of Kubernetes a test runs with: 1.`minor`. Fixtures that depend on it start again if it changes."""
    found: int = getattr(request, "param", OLDEST_MINOR)
    return found


@pytest.fixture(scope="session")
def controlplane(build_go: Callable[[Path], Path], minor: int) -> Path:
    """The binary, built once for each state of its sources."""
    return build_go(PROGRAMS[minor])


@pytest.fixture(scope="session")
def ask_oracle(build_go: Callable[[Path], Path], minor: int) -> Callable[[bytes], bytes]:
    """The oracle, built: returns the verdicts of kube-scheduler's own plugins on cases."""
    build_go(oracle.ORACLES[minor])
    return partial(oracle.ask, reference=oracle.Reference(minor))


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

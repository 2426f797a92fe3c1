"""Two replicas of the whole scheduler on a real API server, which elect a leader: what happens when it goes.

Each replica acts as a user of its own, so the API server's audit log says who wrote what, and when. Leaders that are
partitioned or frozen are in test_scheduler_faults.py.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.support.api import APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.pod_stream import being_created, bound
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until
from tests.scheduler_faults.audit import POLICY, Audit

# A standby leads within seconds of a leader's stop.
pytestmark = pytest.mark.alone

# For so long at most, a standby waits before it looks at the lease again: its retry period, and 120% of it at random.
LONGEST_PAUSE = timedelta(seconds=2 + 1.2 * 2)
# What reading the lease and writing it may take.
WRITE = timedelta(seconds=3)
LEASES = "coordination.k8s.io/v1"
NODES = 4


@pytest.fixture(scope="module")
def audited(controlplane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that logs each write."""
    directory = tmp_path_factory.mktemp("audited")
    (directory / "policy.yaml").write_text(POLICY)
    options = [f"--audit-policy-file={directory}/policy.yaml", f"--audit-log-path={directory}/audit.log"]
    with ControlPlane(controlplane, directory, api_server_options=options) as running:
        yield running


class Replicas:
    """Two replicas, a and b, and the lease that one of them holds."""

    def __init__(self, control_plane: ControlPlane, lease: str) -> None:
        self.control_plane = control_plane
        self.api = control_plane.api
        self.name = lease
        self.a = self.start("a")
        wait_until(lambda: self.holder(), "a to lead", 30)
        self.b = self.start("b")

    def start(self, replica: str) -> Process:
        user = f"{self.name}-{replica}"
        return start(
            self.control_plane,
            {"leaderElection": {"resourceName": self.name, "leaderElect": True}},
            name=user,
            kubeconfig=self.control_plane.user_kubeconfig(user, "system:masters"),
        )

    @property
    def lease(self) -> Object:
        return self.api.get("Lease", self.name, namespace="kube-system", api_version=LEASES)

    def holder(self) -> str:
        try:
            return str(self.lease["spec"].get("holderIdentity", ""))
        except APIError:
            return ""

    def time_of(self, field: str) -> datetime:
        return datetime.fromisoformat(self.lease["spec"][field])

    def wait_for_b(self) -> None:
        known = self.known_line(self.b, "synced")
        assert known

    def known_line(self, process: Process, message: str) -> bool:
        wait_until(lambda: message in process.log.read_text(), f"{process.log.stem} to log {message!r}", 30)
        return True

    def audit(self) -> Audit:
        """What the API server has logged by now."""
        return Audit(self.control_plane.directory / "audit.log")

    def late_writes(self) -> list[str]:
        """What a leader has written after another one led, as the API server saw it."""
        audit = self.audit()
        return [*audit.late_writes(audit.terms(self.name))]

    def kill(self) -> None:
        self.a.kill()
        self.b.kill()


@pytest.fixture
def replicas(audited: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    made = Replicas(audited, lease_of(request.node.name))
    try:
        made.wait_for_b()
        audited.api.create(*(node(f"n{number}", cpu="100", pods="500") for number in range(NODES)))
        yield made
    finally:
        made.kill()
        audited.api.delete(*audited.api.list_all("Pod"), *audited.api.list_all("Node"))


def lease_of(test: str) -> str:
    """A lease's name for a test: short, as the users of its replicas are named after it, in certificates."""
    return test.replace("_", "-")[:40].rstrip("-")


def all_bound(replicas: Replicas, count: int) -> None:
    wait_until(lambda: len(bound(replicas.api)) == count, f"{count} pods to be bound", 60)


def test_a_killed_leader_is_replaced_within_25_seconds_of_its_last_renewal(replicas: Replicas) -> None:
    first = replicas.holder()
    replicas.api.create(*(pod(f"p{number}") for number in range(20)))
    all_bound(replicas, 20)
    replicas.a.kill()
    renewed_at = replicas.time_of("renewTime")
    replicas.api.create(*(pod(f"q{number}") for number in range(20)))
    wait_until(lambda: replicas.holder() not in ("", first), "b to lead", 30)
    acquired_at = replicas.time_of("acquireTime")
    assert timedelta(seconds=15) <= acquired_at - renewed_at <= timedelta(seconds=25)
    assert replicas.lease["spec"]["leaseTransitions"] == 1
    all_bound(replicas, 40)
    messages = {
        event["message"]
        for event in replicas.api.list_all("Event")
        if event["reason"] == "LeaderElection" and event["involvedObject"]["name"] == replicas.name
    }
    assert messages == {f"{first} became leader", f"{replicas.holder()} became leader"}


def test_a_stopped_leader_is_replaced_when_the_standby_looks_next(replicas: Replicas) -> None:
    first = replicas.holder()
    pods = [pod(f"p{number}") for number in range(200)]
    with being_created(replicas.api, pods, pause_seconds=0.02) as created:
        wait_until(lambda: len(bound(replicas.api)) > 20, "pods to be bound")
        assert replicas.a.stop() == 0
        wait_until(lambda: replicas.holder() not in ("", first), "b to lead")
        wait_until(lambda: len(created) == len(pods), "pods to be created", 60)
    all_bound(replicas, len(pods))
    stopped, standby = replicas.audit().terms(replicas.name)
    assert stopped.released
    assert standby.acquired_at - stopped.renewed_at <= LONGEST_PAUSE + WRITE
    assert replicas.late_writes() == []

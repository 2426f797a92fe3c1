"""What happens to the leader, or to all replicas, while pods are created. A leader and a standby are left."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.waiting import wait_until
from tests.scheduler_faults.replicas import Replica, Replicas

_DOWN_SECONDS = 2.0
_TIMEOUT_SECONDS = 90.0


@dataclass
class Scene:
    """What a fault acts on.

    `bound` returns how many pods are bound; `stopped_at` has clean stops, by user. A leader that is stopped for
    `pause_seconds` keeps its lease.
    """

    control_plane: ControlPlane
    replicas: Replicas
    bound: Callable[[], int]
    pause_seconds: float
    stopped_at: dict[str, datetime]
    complaints: list[str]

    def wait_for_another(self, old: Replica) -> None:
        """Wait until another replica leads and has bound a pod."""

        def binds_pods() -> bool:
            leader = self.replicas.leader()
            return leader is not old and leader.has_logged("bound a pod")

        wait_until(binds_pods, f"another leader than {old.user} to bind a pod", _TIMEOUT_SECONDS, 0.2)

    def add_standby(self) -> None:
        """Start a replica, and wait until it may take over at once."""
        self.replicas.wait_synced(self.replicas.start())

    def require_end(self, replica: Replica, *, status: int, within_seconds: float = 30.0) -> None:
        """Note if a replica does not end by itself with this status."""
        wait_until(lambda: replica.process.exit_code is not None, f"{replica.user} to end", within_seconds)
        if replica.process.exit_code != status:
            self.complaints.append(f"{replica.user} ended with {replica.process.exit_code} instead of {status}")


def partition_the_leader(scene: Scene) -> None:
    """The leader and the API server do not hear each other. The leader ends; the network comes back later.

    It is stopped for a moment before, so that it has pods to bind while it is cut off.
    """
    leader = scene.replicas.leader()
    os.kill(leader.process.pid, signal.SIGSTOP)
    time.sleep(scene.pause_seconds)
    before = leader.decided
    os.kill(leader.process.pid, signal.SIGCONT)
    wait_until(lambda: leader.decided > before, f"{leader.user} to go on", _TIMEOUT_SECONDS, 0.005)
    leader.link.cut()
    scene.wait_for_another(leader)
    scene.require_end(leader, status=1)
    leader.link.mend()
    scene.add_standby()


def freeze_the_leader(scene: Scene) -> None:
    """The leader is stopped by SIGSTOP, and goes on when another leads. It ends then."""
    leader = scene.replicas.leader()
    os.kill(leader.process.pid, signal.SIGSTOP)
    try:
        scene.wait_for_another(leader)
    finally:
        os.kill(leader.process.pid, signal.SIGCONT)
    scene.require_end(leader, status=1)
    scene.add_standby()


def kill_the_leader(scene: Scene) -> None:
    """The leader ends by SIGKILL."""
    leader = scene.replicas.leader()
    leader.process.kill()
    scene.wait_for_another(leader)
    scene.add_standby()


def kill_all_replicas(scene: Scene) -> None:
    """All replicas end by SIGKILL, and are started again."""
    leader = scene.replicas.leader()
    scene.replicas.kill()
    scene.add_standby()
    scene.wait_for_another(leader)
    scene.add_standby()


def stop_the_leader(scene: Scene) -> None:
    """The leader ends by SIGTERM."""
    leader = scene.replicas.leader()
    scene.stopped_at[leader.user] = datetime.now(UTC)
    if (status := leader.process.stop()) != 0:
        scene.complaints.append(f"{leader.user} ended with {status} on SIGTERM")
    scene.wait_for_another(leader)
    scene.add_standby()


def restart_the_api_server(scene: Scene) -> None:
    """The API server ends by SIGKILL, and is started again. The leader goes on leading."""
    leader, before = scene.replicas.leader(), scene.bound()
    scene.control_plane.api_server.kill()
    time.sleep(_DOWN_SECONDS)
    scene.control_plane.start_api_server()
    wait_until(lambda: scene.bound() > before, "a pod to be bound", _TIMEOUT_SECONDS, 0.5)
    if scene.replicas.leader() is not leader:
        scene.complaints.append(f"{leader.user} lost its lease as the API server was restarted")


FAULTS = (
    partition_the_leader,
    freeze_the_leader,
    kill_the_leader,
    stop_the_leader,
    restart_the_api_server,
    kill_all_replicas,
)

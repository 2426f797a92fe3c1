"""Replicas of the scheduler, each a process, a user and a link to the API server of its own."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.support import kubeconfigs
from tests.e2e.support.objects import Object
from tests.e2e.support.plugins.decision_recorder import DecisionRecorder
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until
from tests.scheduler_faults.links import Link, Links

LEASE = "scheduler-faults"
_START_SECONDS = 60.0
_EXPECTED_ERRORS = {
    "lost the leader lease",
    "ending, as the leader lease is lost",
    "cannot update a pod",  # it is gone with its node, or this replica may not write any more
}


class Replica:
    """One process. `user` is who it is for the API server; `decisions` is the file of its decisions."""

    def __init__(self, user: str, process: Process, link: Link, decisions: Path) -> None:
        self.user = user
        self.process = process
        self.link = link
        self.decisions = decisions

    @property
    def leads(self) -> bool:
        """Whether it has begun to lead, as its log says, and has not ended."""
        return self.process.exit_code is None and self.has_logged("acquired the leader lease")

    @property
    def decided(self) -> int:
        """How many bytes its decisions take up to now."""
        return self.decisions.stat().st_size

    @property
    def waits_since(self) -> datetime:
        """When it began to look at the lease."""
        line = next(line for line in self._lines() if line["msg"] == "attempting to acquire the leader lease")
        return datetime.fromisoformat(line["time"])

    def complaints(self) -> Iterator[str]:
        """Yield the lines of its log that show a defect."""
        for line in self._lines():
            if "exception" in line or (line["level"] == "error" and line["msg"] not in _EXPECTED_ERRORS):
                yield f"{self.user} has logged: {line['msg'][:200]}"

    def _lines(self) -> Iterator[Object]:
        return (json.loads(line) for line in self.process.log.read_text().splitlines())

    def has_logged(self, message: str) -> bool:
        return f'"{message}"' in self.process.log.read_text()


class Replicas:
    """Starts replicas, each under a new name, so that the audit log keeps them apart. Call it from the main thread."""

    def __init__(self, control_plane: ControlPlane, links: Links, election: Mapping[str, Any]) -> None:
        """`election` are fields of LeaderElectionConfiguration."""
        self.all: list[Replica] = []
        self._control_plane = control_plane
        self._links = links
        self._election = election

    def start(self) -> Replica:
        """Start one more; it lists and watches before it leads."""
        user, link = f"replica-{len(self.all) + 1}", self._links.open()
        decisions = self._control_plane.directory / f"{user}.decisions"
        decisions.touch()
        authority = self._control_plane.authority
        credentials = kubeconfigs.certificate_user(authority, user, "system:masters")
        file = self._control_plane.directory / f"{user}.kubeconfig"
        kubeconfig = kubeconfigs.write(file, link.url, authority, credentials)
        process = start(
            self._control_plane,
            self._configuration(decisions),
            name=user,
            kubeconfig=kubeconfig,
            plugins=[DecisionRecorder],
        )
        replica = Replica(user, process, link, decisions)
        self.all.append(replica)
        return replica

    def wait_synced(self, replica: Replica) -> None:
        """Wait until its caches are synced."""
        wait_until(lambda: replica.has_logged("synced"), f"{replica.user} to be synced", _START_SECONDS)

    def leader(self) -> Replica:
        """Wait for a leader, and return it."""
        return wait_until(lambda: [*self._leading()], "a leader", _START_SECONDS)[0]

    def kill(self) -> None:
        """Kill all that still run."""
        for replica in self.all:
            replica.process.kill()

    def _leading(self) -> Iterator[Replica]:
        # The newest first: one that is frozen or cut off may take itself for the leader.
        return (replica for replica in reversed(self.all) if replica.leads)

    def _configuration(self, decisions: Path) -> Object:
        recorder = {"enabled": [{"name": DecisionRecorder.name}]}
        arguments = {"name": DecisionRecorder.name, "args": {"file": str(decisions)}}
        return {
            "leaderElection": {"leaderElect": True, "resourceName": LEASE, **self._election},
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"reserve": recorder, "postFilter": recorder},
                    "pluginConfig": [arguments],
                }
            ],
        }

"""deploy/scheduler: two replicas of the whole scheduler work with the rights of their account, and with no others."""

import itertools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import yaml

from extender_service.config.release import OLDEST_MINOR
from tests.e2e.support.api import APIError
from tests.e2e.support.objects import Object, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.deployed_schedulers import (
    create_nodes,
    may_do,
    nodes_once_all_are_bound,
    place_all_kinds,
    priority_levels,
    refusals,
)
from tests.e2e.support.programs.deployments import Base, edit, passes, scheduler_process, wait_for_probes
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import PROGRAM
from tests.e2e.support.programs.volume_controllers import volume_controllers
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

NAME = "whole-scheduler"


@contextmanager
def started(
    base: Base, account: Path, directory: Path, minor: int, settings: str = ""
) -> Iterator[tuple[Process, int]]:
    """A pod of the deployment, and its secure port. `settings` are lines of its configuration."""
    files = directory / "files"
    directory.mkdir()
    base.write_files(files)
    # In a pod, the scheduler finds the API server, and its token, by itself.
    connection = f"\nclientConnection:\n  kubeconfig: {account}"
    edit(files / "scheduler.yaml", replace="\nclientConnection:", by=f"\n{settings}{connection}")
    command: list[str | Path] = [PROGRAM, *base.command("scheduler", files), deciding_as(minor)]
    with scheduler_process(command, account, directory / "scheduler.log") as running:
        yield running


@contextmanager
def replica(base: Base, account: Path, directory: Path, minor: int) -> Iterator[tuple[Process, int]]:
    """A pod of the deployment with all its probes passing, and its secure port."""
    with started(base, account, directory, minor) as (process, port):
        wait_for_probes(base.container("scheduler"), process, port)
        yield process, port


@both_releases
def test_two_replicas_place_pods_with_the_rights_of_their_account(
    control_plane: ControlPlane, tmp_path: Path, minor: int
) -> None:
    base = Base(control_plane, "scheduler")
    account = base.grant_rights()
    api = control_plane.api
    create_nodes(control_plane)
    refused_before = refusals(control_plane)

    with (
        volume_controllers(api),
        replica(base, account, tmp_path / "first", minor) as (first, first_port),
        replica(base, account, tmp_path / "second", minor) as (second, _),
    ):
        wait_until(lambda: holder(control_plane), "a leader")
        leader, standby = (first, second) if "acquired the leader lease" in first.log.read_text() else (second, first)
        place_all_kinds(control_plane, NAME)
        wait_until(lambda: "Preempted" in reasons(control_plane), "the events")

        asks_for_metrics(first_port, account)
        was_held_by = holder(control_plane)
        assert leader.stop() == 0
        api.create(pod("later", schedulerName=NAME))
        assert "later" in nodes_once_all_are_bound(control_plane)
        assert holder(control_plane) != was_held_by
        standby.require_running()
        logs = leader.log.read_text() + standby.log.read_text()
        assert "forbidden" not in logs.lower()
        assert reasons(control_plane) >= {"Scheduled", "Preempted", "LeaderElection"}
    assert refusals(control_plane) == refused_before
    levels = priority_levels(control_plane)
    assert levels[f"{NAME}-leader-election"] == "leader-election"
    assert levels[NAME] == "workload-high"


def test_a_replica_without_a_cache_goes_on_waiting_for_the_lease(control_plane: ControlPlane, tmp_path: Path) -> None:
    """With delayCacheUntilActive, it is not ready before it leads, as kube-scheduler is not."""
    base = Base(control_plane, "scheduler")
    account = base.grant_rights()
    held = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"}
    metadata = {"namespace": NAME, "name": NAME}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": held}
    control_plane.api.create(lease)

    with started(base, account, tmp_path / "pod", OLDEST_MINOR, "delayCacheUntilActive: true") as (process, port):
        probes = base.container("scheduler")
        wait_until(lambda: "another replica leads" in process.log.read_text(), "the other one's lease to be seen")
        assert passes(probes["startupProbe"], port)
        assert passes(probes["livenessProbe"], port)
        assert not passes(probes["readinessProbe"], port)


@both_releases
def test_the_account_may_do_what_a_scheduler_needs_and_nothing_else(shared_control_plane: ControlPlane) -> None:
    base = Base(shared_control_plane, "scheduler")
    base.grant_rights()
    user = f"system:serviceaccount:{NAME}:{NAME}"
    core = ("nodes", "pods", "pods/binding", "pods/status", "pods/eviction", "secrets", "configmaps", "events")
    groups = [
        *(("", name) for name in core),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        ("storage.k8s.io", "storageclasses"),
    ]
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")

    may = {
        (verb, name, group)
        for verb in verbs
        for group, name in groups
        if may_do(shared_control_plane, user, verb, name, group=group)
    }

    read = {
        (verb, name, group)
        for verb in ("list", "watch")
        for name, group in (("nodes", ""), ("pods", ""), ("storageclasses", "storage.k8s.io"))
    }
    assert may == read | {
        ("get", "pods", ""),
        ("delete", "pods", ""),
        ("create", "pods/binding", ""),
        ("patch", "pods/status", ""),
        ("create", "events", "events.k8s.io"),
        ("patch", "events", "events.k8s.io"),
    }


def holder(control_plane: ControlPlane) -> str:
    """Who holds the lease; empty if it is free or does not exist."""
    found = control_plane.kubectl("get", "lease", "-n", NAME, "--ignore-not-found", "-o=yaml", NAME)
    lease = yaml.safe_load(found) or {}
    held: str = lease.get("spec", {}).get("holderIdentity") or ""
    return held


def reasons(control_plane: ControlPlane) -> set[str]:
    return {event["reason"] for event in control_plane.api.list_all("Event")}


def asks_for_metrics(port: int, account: Path) -> None:
    """The account itself may not read the metrics: the scheduler asks the API server who it is, and what it may do."""
    token = yaml.safe_load(account.read_text())["users"][0]["user"]["token"]
    url = f"https://127.0.0.1:{port}/metrics"
    insecure = ssl.create_default_context()
    insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
    with httpx.Client(verify=insecure, trust_env=False) as client:
        assert client.get(url, headers={"Authorization": f"Bearer {token}"}).status_code == 403
        assert client.get(url, headers={"Authorization": "Bearer unknown"}).status_code == 401


def test_the_account_may_change_only_the_status_of_pods(empty_cluster: ControlPlane) -> None:
    Base(empty_cluster, "scheduler").grant_rights()
    web = pod("web", labels={"app": "web"})
    empty_cluster.api.create(web)

    def denial(patch: Object) -> str:
        """Why the account may not patch the status so; empty if it may."""
        path, user = f"{empty_cluster.api.object_path(web)}/status", f"system:serviceaccount:{NAME}:{NAME}"
        try:
            empty_cluster.api.request("PATCH", path, patch, user=user)
        except APIError as error:
            return str(error)
        return ""

    def may_not_change(**metadata: object) -> bool:
        return "may change only the status of a pod" in denial({"metadata": metadata})

    tags = itertools.count()
    wait_until(lambda: may_not_change(labels={"more": str(next(tags))}), "the policy to hold, soon after it was made")
    assert may_not_change(annotations={"more": "1"})
    assert may_not_change(finalizers=["example.com/stay"])
    assert denial({"status": {"nominatedNodeName": "a"}}) == ""

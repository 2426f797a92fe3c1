"""etcd over its quota: nothing can be written, not even the lease, until an administrator mends it."""

from pathlib import Path

import httpx
import pytest

from tests.e2e.support.api import APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.whole_scheduler import start
from tests.e2e.support.waiting import wait_until

PODS = 20
QUOTA_BYTES = 16 << 20
MOST_CONFIG_MAPS = 100
CONFIG_MAP_BYTES = 900_000
# Shorter than usual, so that the lease is lost soon.
ELECTION = {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}


def started(control_plane: ControlPlane) -> Process:
    return start(control_plane, {"leaderElection": ELECTION}, name="full-etcd")


def fill(control_plane: ControlPlane) -> None:
    """Write until etcd takes no more."""
    with pytest.raises(APIError, match="database space exceeded"):
        control_plane.api.create(*map(_large, range(MOST_CONFIG_MAPS)))


def _large(number: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"large-{number}", "namespace": "default"},
        "data": {"filler": "x" * CONFIG_MAP_BYTES},
    }


def test_a_leader_ends_that_cannot_renew_its_lease_and_all_pods_are_bound_once_etcd_is_mended(
    controlplane: Path, tmp_path: Path
) -> None:
    with ControlPlane(controlplane, tmp_path, etcd_options=[f"--quota-backend-bytes={QUOTA_BYTES}"]) as control_plane:
        api = control_plane.api
        process = started(control_plane)
        wait_until(lambda: "acquired the leader lease" in process.log.read_text(), "it to lead")
        api.create(*(pod(f"p{number}", requests={"cpu": "100m"}) for number in range(PODS)))
        fill(control_plane)
        wait_until(lambda: process.exit_code is not None, "it to end, as its lease is over")
        assert process.exit_code != 0
        again = started(control_plane)
        try:
            control_plane.lift_etcd_quota()

            def is_created() -> bool:
                try:
                    return bool(api.create(node("n", pods="30")))
                except (APIError, httpx.TransportError):
                    return False

            wait_until(is_created, "the API server to write again")

            def all_bound() -> bool:
                return all(found["spec"].get("nodeName") for found in api.list_all("Pod"))

            wait_until(all_bound, "all pods to be bound", timeout_seconds=60)
            again.require_running()
        finally:
            again.kill()

"""Two pairs of kube-scheduler and service, one of which works: whatever becomes of it, pods go on to be placed.

At the end of each test the pods just fill the nodes. One that counts on two nodes, or on none, would leave another one
without a place, or put too much on a node.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.e2e.support.api import APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.pod_stream import being_created, bound
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.deployments import Base, may_name_hosts
from tests.e2e.support.programs.kubelets import PairPod
from tests.e2e.support.waiting import wait_until

# A leader has 3 s to renew its lease.
pytestmark = pytest.mark.alone

NAMESPACE = NAME = "extender-scheduler"
LEASES = "coordination.k8s.io/v1"
# Changes to kube-scheduler.yaml: after a leader has gone, pods wait for seconds.
SOONER = (
    (
        "  leaderElect: true\n",
        "  leaderElect: true\n  leaseDuration: 4s\n  renewDeadline: 3s\n  retryPeriod: 500ms\n",
    ),
    ("percentageOfNodesToScore:", "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\npercentageOfNodesToScore:"),
)
STALE_SOONER = "--stale-limit=10s"
NODES, PODS_PER_NODE = 4, 10


class Pairs:
    """Both pods, and the lease that they hold in turn."""

    def __init__(self, control_plane: ControlPlane, *pods: PairPod) -> None:
        self.api = control_plane.api
        self.pods = pods

    def until(self, condition: Callable[[], object], what: str, timeout_seconds: float = 60.0) -> None:
        """Wait, while the kubelets do their work."""

        def is_so() -> bool:
            for each in self.pods:
                each.sync()
            return bool(condition())

        wait_until(is_so, what, timeout_seconds)

    @property
    def lease(self) -> Object:
        return self.api.get("Lease", NAME, namespace=NAMESPACE, api_version=LEASES)

    @property
    def leader(self) -> PairPod | None:
        host, _, _ = self.lease["spec"].get("holderIdentity", "").partition("_")
        return next((each for each in self.pods if each.host == host), None)

    def is_held(self) -> bool:
        """Whether there is a lease that one of them holds."""
        try:
            return self.leader is not None
        except APIError as error:
            if error.status_code != HTTPStatus.NOT_FOUND:
                raise
            return False

    def are_ready(self) -> bool:
        """Whether one works, and the other could."""
        return self.is_held() and all(each.is_ready for each in self.pods)

    def decisions(self) -> list[Object]:
        """What both services decided without an error, in the order of time, each with the `host`; waits for both."""
        self.until(self.are_ready, "both pairs to be ready")
        found = [{**record, "host": each.host} for each in self.pods for record in each.decisions()]
        return sorted(found, key=lambda record: record["time"])


def the_pair_is_killed(pairs: Pairs, leader: PairPod) -> None:
    leader.stay_down(down=True)
    leader.kill()
    pairs.until(lambda: pairs.leader not in (None, leader), "the other to lead")
    leader.stay_down(down=False)


def its_scheduler_is_killed(_pairs: Pairs, leader: PairPod) -> None:
    leader.scheduler.kill()


def its_service_is_killed(_pairs: Pairs, leader: PairPod) -> None:
    leader.service.kill()


def its_service_stays_away(pairs: Pairs, leader: PairPod) -> None:
    leader.service.stays_down = True
    leader.service.kill()
    pairs.until(lambda: pairs.leader not in (None, leader), "the other to lead")
    leader.service.stays_down = False


def the_lease_is_deleted(pairs: Pairs, leader: PairPod) -> None:
    """Until the other makes a new one first: it leads then, while the former goes on until its renew deadline."""
    while pairs.leader is leader:
        pairs.api.delete(pairs.lease)
        pairs.until(pairs.is_held, "one of them to make a new lease")


def the_lease_is_taken(pairs: Pairs, _leader: PairPod) -> None:
    pairs.api.patch(pairs.lease, patch={"spec": {"holderIdentity": "somebody_else"}})


FAULTS = (
    the_pair_is_killed,
    its_scheduler_is_killed,
    its_service_is_killed,
    its_service_stays_away,
    the_lease_is_deleted,
    the_lease_is_taken,
)


@pytest.fixture(scope="module")
def pairs(
    shared_control_plane: ControlPlane, controlplane: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pairs]:
    if not may_name_hosts() and os.environ.get("CI") != "true":
        pytest.skip("two hosts on one machine need a kernel, and rights, for namespaces of host names (unshare --uts)")
    directory = tmp_path_factory.mktemp("pairs")
    base = Base(shared_control_plane, "second-scheduler")
    account = base.grant_rights()
    pods = [
        PairPod(base, controlplane, account, directory / name, *SOONER, options=[STALE_SOONER])
        for name in ("pair-a", "pair-b")
    ]
    try:
        yield Pairs(shared_control_plane, *pods)
    finally:
        for each in pods:
            each.kill()


@pytest.mark.parametrize("fault", FAULTS)
def test_pods_go_on_to_be_placed_where(
    fault: Callable[[Pairs, PairPod], None], pairs: Pairs, empty_cluster: ControlPlane
) -> None:
    api = empty_cluster.api
    decisions_before = pairs.decisions()
    for each in pairs.pods:  # those of the faults before
        each.forget_restarts()
    api.create(*(node(f"node-{number}", cpu=str(PODS_PER_NODE)) for number in range(NODES)))
    pods = [pod(f"p-{number}", requests={"cpu": "1"}, schedulerName=NAME) for number in range(NODES * PODS_PER_NODE)]
    with being_created(api, pods, pause_seconds=0.06) as created:
        pairs.until(lambda: len(bound(api)) > len(pods) / 4, "pods to be bound")
        leader = pairs.leader
        assert leader
        fault(pairs, leader)
        pairs.until(lambda: len(created) == len(pods), "pods to be created")
    pairs.until(lambda: len(bound(api)) == len(pods), "all pods to be bound")

    assert violations(api.list_all("Node"), api.list_all("Pod")) == []
    made = pairs.decisions()[len(decisions_before) :]
    # Nobody was told of another node than the one that the pod is on.
    told = {(each["pod"], each["node"]) for each in made if each["verb"] == "bind"}
    assert told <= {(f"default/{name}", node_name) for name, node_name in bound(api).items()}
    # One after the other, not both at the same time.
    turns = [host for host, _ in itertools.groupby(each["host"] for each in made)]
    assert len(turns) <= 2


def test_while_the_api_server_is_away_no_probe_ends_a_container(pairs: Pairs, empty_cluster: ControlPlane) -> None:
    """Neither of those that are not ready then, nor of the kube-scheduler that lost its lease and started again."""
    pairs.until(pairs.are_ready, "both pairs to be ready")
    for each in pairs.pods:
        each.forget_restarts()
    ended_before = [each.ended_by_probes for each in pairs.pods]

    empty_cluster.api_server.kill()
    try:
        pairs.until(lambda: not any(each.service.is_ready for each in pairs.pods), "the services to be out of date")
        probed_until = time.monotonic() + 5.0  # three failures of a liveness probe take 1.5 s here
        pairs.until(lambda: time.monotonic() > probed_until, "the probes")
    finally:
        empty_cluster.start_api_server()
    empty_cluster.api.create(node("a"), pod("p", schedulerName=NAME))
    # client-go's watches wait for up to a minute before they are tried again.
    pairs.until(lambda: bound(empty_cluster.api) == {"p": "a"}, "the pod to be bound", 120.0)
    assert [each.ended_by_probes for each in pairs.pods] == ended_before

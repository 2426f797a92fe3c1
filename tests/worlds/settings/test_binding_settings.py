"""Settings that matter while pods are being bound do what they say, and all holds."""

import signal
from collections.abc import Callable
from itertools import groupby
from unittest import mock

import pytest

from extender_service.scheduler.leader_election import LeaderElector
from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.messages import Answer, Request
from tests.worlds.faults.plan import Fault
from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.settings.preparing import Courier, Preparing


@pytest.mark.parametrize(
    ("mode", "binder"),
    [(None, "replica-0"), ("beside", "replica-0"), ("replace", "service"), ("preempting", "service")],
)
def test_plugins_take_part_in_bindings_where_pods_are_bound(mode: Mode | None, binder: str) -> None:
    approve, bind = Preparing._approve, Courier.bind
    who: set[str] = set()

    def approved(self: Preparing, *arguments: object) -> None:
        who.add(self._loop.name)
        approve(self, *arguments)  # type: ignore[arg-type]

    with (
        mock.patch.object(Preparing, "_approve", approved),
        mock.patch.object(Courier, "bind", autospec=True, side_effect=bind) as bindings,
    ):
        wanted = frozenset({"preparations", "courier"})
        end, _ = run_world(Scenario(1, minutes=2.0, pods=30, wanted=wanted, mode=mode))
    assert end.violations == []
    assert end.bound == 30
    assert who == {binder}
    assert bindings.call_count > 30  # some pods were left to others


def test_serve_works_only_with_the_scheduler_of_its_machine() -> None:
    wanted = frozenset({"leader-lease", "preparations"})
    faults = (Fault(20.0, "kill", "replica-0"),)
    end, cluster = run_world(Scenario(1, minutes=2.0, pods=30, wanted=wanted, mode="replace", faults=faults))
    assert end.violations == []
    assert end.bound == 30
    holders = [line for line in cluster.world.trace.lines if " service: INFO another holds the lease" in line]
    assert [line.partition("holder=")[2].partition("_")[0] for line in holders] == ["", "replica-0", "replica-0"]


def test_another_pair_takes_the_lease_of_a_leader_that_stands_still_and_binds_pods() -> None:
    wanted = frozenset({"leader-lease", "preparations", "rival"})
    faults = (Fault(20.0, "freeze", "replica-0", 40.0),)
    end, cluster = run_world(Scenario(1, minutes=3.0, pods=30, wanted=wanted, mode="replace", faults=faults))
    assert end.violations == []
    assert end.bound == 30
    lines = cluster.world.trace.lines
    holders = [line.partition("holder=")[2].partition("_")[0] for line in lines if "another holds the lease" in line]
    in_turn = [name for name, _ in groupby(filter(None, holders))]
    assert in_turn == ["replica-0", "rival", "replica-0"]
    for path in ("/leases/kube-scheduler", "/binding"):
        assert any(f"{path} of rival " in line for line in lines)


def test_a_leader_that_stood_still_for_long_says_so_to_a_probe() -> None:
    health_problem = LeaderElector.health_problem
    problems: set[str | None] = set()

    def noted(self: LeaderElector) -> str | None:
        problem = health_problem(self)
        problems.add(problem)
        return problem

    faults = (Fault(20.0, "freeze", "leader", 37.0),)
    scenario = Scenario(1, minutes=2.0, replicas=2, pods=10, wanted=frozenset({"probes"}), faults=faults)
    with mock.patch.object(LeaderElector, "health_problem", noted):
        end, _ = run_world(scenario)
    assert end.violations == []
    assert problems == {None, "failed election to renew leadership on lease kube-system/kube-scheduler"}


def refuse_lists_for_longer_than_a_lease_lasts(cluster: ScheduledCluster) -> None:
    """Refuse to list nodes, and ask all replicas for a dump meanwhile."""
    timeline = cluster.world.timeline

    def gate(request: Request, carry_out: Callable[[], Answer]) -> Answer:
        is_list = request.method == "GET" and request.path == "/api/v1/nodes" and "watch" not in request.query
        return RefusedError(503, "ServiceUnavailable", "").response() if is_list and timeline.now < 40 else carry_out()

    def ask_for_dumps() -> None:
        for replica in cluster.replicas:
            replica.signal(signal.SIGUSR2)

    for server in cluster.api_servers.servers.values():
        server.gates.append(gate)
    timeline.call_at(20.0, ask_for_dumps)


def test_only_the_leader_reads_the_cluster_and_it_keeps_its_lease_meanwhile() -> None:
    scenario = Scenario(1, minutes=2.0, replicas=2, pods=10, wanted=frozenset({"delayed-cache"}))
    end, cluster = run_world(scenario, refuse_lists_for_longer_than_a_lease_lasts)
    # No fault of the world explains what the logs say of the refusals.
    assert [line for line in end.violations if "nothing unexpected logged" not in line] == []
    assert end.bound == 10
    history = "\n".join(cluster.world.trace.lines)
    assert history.count(" INFO synced ") == 1
    assert "lost the leader lease" not in history
    assert [replica.starts for replica in cluster.replicas] == [1, 1]

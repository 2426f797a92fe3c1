"""A write of a replica that does not lead is reported, unless it was sent while that replica led."""

from collections.abc import Callable
from random import Random
from unittest import mock

import pytest

from extender_service.extender.leadership import Leadership
from tests.worlds.api_server.kinds import LEASES
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Fault
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.programs.leaders import LEASE, LeaseCountedFromRequest, LeaseTakenInTurn, WrittenByLeader
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

BINDING = "/api/v1/namespaces/default/pods/a/binding"


async def idle(_: object) -> None:
    """A program that does nothing."""


class Election:
    """Two replicas, a lease, and a clock that a test moves. With `is_pair`, `serve` is on the first one's machine."""

    def __init__(self, *, is_pair: bool = False) -> None:
        self.world = World(1)
        self.model = ApiServer(MachineClocks(self.world.timeline).wall, Random(1))
        replicas = [Process(self.world, f"replica-{number}", idle) for number in range(2)]
        service = Process(self.world, "service", idle, host_name="replica-0") if is_pair else None
        self.observed = Observed(self.world, self.model, replicas, service, is_pair=is_pair)
        self.rule = WrittenByLeader(self.observed)

    def at(self, now: float, holder: str) -> None:
        """The lease goes to a replica at a time."""
        self.world.timeline.now = now
        value = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": f"{holder}_x" if holder else ""}}
        self.model.etcd.put(LEASES, LEASE, value)

    def write(self, who: str, written_at: float, path: str = BINDING) -> list[str]:
        """What a write of a replica breaks, which arrives now."""
        before = len(self.observed.violations.lines())
        self.rule._check(Served(who, written_at, Request("POST", path), Response(201, b"")))
        return self.observed.violations.lines()[before:]


def test_a_leader_may_write_and_its_late_bytes_are_excused() -> None:
    election = Election()
    election.at(10.0, "replica-0")
    assert election.write("replica-0", 11.0) == []
    election.at(30.0, "replica-1")
    assert election.write("replica-0", 29.9) == []


def test_what_is_written_after_the_lease_went_is_reported() -> None:
    election = Election()
    election.at(10.0, "replica-0")
    election.at(30.0, "replica-1")
    text = f"replica-0 wrote POST {BINDING} at 30.100000, while replica-1_x held the lease, since 30.000000"
    assert election.write("replica-0", 30.1) == [f"30.000000 written by the leader: {text}"]
    assert election.write("replica-1", 30.1) == []


def test_what_is_written_before_anyone_leads_or_after_the_release_is_reported() -> None:
    election = Election()
    assert len(election.write("replica-0", 5.0)) == 1
    election.at(10.0, "replica-0")
    election.at(20.0, "")
    assert len(election.write("replica-0", 21.0)) == 1


def test_anyone_may_write_the_lease() -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    assert Election().write("replica-0", 5.0, path) == []


def test_serve_of_a_pair_binds_only_while_its_scheduler_leads_as_it_has_read() -> None:
    election = Election(is_pair=True)
    assert len(election.write("service", 5.0)) == 1
    election.at(10.0, "replica-0")
    assert election.write("service", 12.0) == []
    election.at(20.0, "")
    assert election.write("service", 21.9) == []
    text = f"service wrote POST {BINDING} at 22.500000, while nothing held the lease, since 20.000000"
    assert election.write("service", 22.5) == [f"20.000000 written by the leader: {text}"]
    assert election.write("service", 22.5, "/apis/events.k8s.io/v1/namespaces/default/events") == []
    assert len(election.write("replica-0", 20.1)) == 1


@pytest.mark.parametrize("other", ["rival", "replica-1"])
def test_serve_of_a_pair_does_not_bind_for_the_scheduler_of_another_machine(other: str) -> None:
    election = Election(is_pair=True)
    election.at(10.0, "replica-0")
    election.at(30.0, other)
    assert election.write("service", 31.9) == []
    assert len(election.write("service", 32.5)) == 1


def test_serve_of_a_pair_binds_only_once_that_of_the_holder_before_does_not_any_more() -> None:
    election = Election(is_pair=True)
    election.at(10.0, "rival")
    election.at(40.0, "replica-0")
    text = f"service wrote POST {BINDING} at 41.500000, while replica-0_x held the lease, since 40.000000"
    assert election.write("service", 41.5) == [f"40.000000 written by the leader: {text}"]
    assert election.write("service", 41.9) == []  # 2 s later, by a clock that is fast


def test_serve_of_a_pair_may_bind_at_once_for_the_next_process_of_its_scheduler() -> None:
    election = Election(is_pair=True)
    election.at(10.0, "replica-0")
    election.at(40.0, "replica-0_next")
    assert election.write("service", 40.1) == []


def test_serve_that_binds_as_soon_as_its_scheduler_leads_is_reported_in_a_world() -> None:
    take = Leadership._take

    def take_at_once(self: Leadership, holder: str, asked_at: float, on_lost: Callable[[], None]) -> None:
        take(self, holder, asked_at, on_lost)
        self._counts_from = asked_at

    # It gives the lease up, and once it is back and takes it again, pods wait.
    faults = (Fault(20.0, "terminate", "replica-0"),)
    wanted = frozenset({"leader-lease"})
    cluster = ScheduledCluster(Scenario(1, minutes=1.5, pods=60, wanted=wanted, mode="replace", faults=faults))
    with mock.patch.object(Leadership, "_take", take_at_once):
        cluster.run()
    assert "written by the leader: service wrote POST" in "".join(cluster.problems())


def test_serve_binds_for_any_replica_where_it_is_of_no_pair() -> None:
    assert Election().write("service", 5.0) == []


def test_two_may_lead_for_a_while_after_the_lease_was_deleted() -> None:
    election = Election()
    election.at(10.0, "replica-0")
    election.world.timeline.now = 20.0
    election.model.etcd.delete(LEASES, LEASE)
    election.at(21.0, "replica-1")
    assert election.write("replica-0", 25.0) == []
    assert len(election.write("replica-0", 33.0)) == 1


def test_the_lease_of_the_process_before_on_the_same_host_is_no_excuse() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, replicas=2, pods=0))
    cluster.run()
    (rule,) = [each for each in cluster.holds._always if isinstance(each, WrittenByLeader)]
    (who,) = [each.name for each in cluster.replicas if (found := scheduler_insides(each)) and found.is_leading]
    written = Served(who, cluster.world.timeline.now, Request("POST", BINDING), Response(201, b""))
    rule._check(written)
    assert cluster.problems() == []
    rule._holders[-1] = f"{who}_as it was before"
    rule._check(written)
    assert f"while {who}_as it was before held the lease" in "".join(cluster.problems())


def test_an_age_that_is_counted_from_later_than_the_renewal_is_reported() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, replicas=2, pods=0))
    cluster.run()
    assert cluster.problems() == []
    leading = [each for each in map(scheduler_insides, cluster.replicas) if each is not None and each.is_leading]
    elector = leading[0].elector
    assert elector is not None
    (rule,) = [each for each in cluster.holds._always if isinstance(each, LeaseCountedFromRequest)]
    written_at = rule._written_at[elector.holder]
    cluster.world.timeline.now = written_at + 1.0
    elector._renewed_at = elector._clock()
    rule._look()
    (line,) = cluster.problems()
    assert "counts 0.000 s since it renewed its lease, and asked for that 1.000 s ago" in line


def test_a_leader_whose_clock_drifts_in_several_ways_at_once_is_not_reported() -> None:
    drifts = tuple(Fault(5.0 + number, "drift", "leader", 15.0, 0.97) for number in range(5))
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, replicas=2, pods=0, faults=drifts))
    cluster.run()
    assert cluster.problems() == []


def test_a_lease_that_is_taken_before_its_end_is_reported() -> None:
    model, world = Election().model, World(1)
    observed = Observed(world, model, [])
    LeaseTakenInTurn(observed)

    def at(now: float, holder: str, renewed_at: float | None = None) -> None:
        world.timeline.now = now
        renewed_at = now if renewed_at is None else renewed_at
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": f"{renewed_at}"}
        model.etcd.put(LEASES, LEASE, {"metadata": {"name": "kube-scheduler"}, "spec": spec})

    at(1.0, "a")
    at(3.0, "a")
    at(10.0, "a", renewed_at=3.0)  # a note, which does not renew it
    at(17.5, "b")  # 14.5 s later, by a clock that is fast
    at(18.0, "")
    at(18.1, "a")
    assert observed.violations.lines() == []
    at(30.0, "b")
    text = "b takes the lease 11.900 s after a renewed it for 15 s"
    assert observed.violations.lines() == [f"30.000000 lease taken in turn: {text}"]


@pytest.mark.parametrize(("lost_at", "taken_at", "is_early"), [(3.0, 15.2, False), (1.0, 13.2, True)])
def test_after_a_restore_a_lease_counts_from_when_the_one_in_the_backup_was_written(
    lost_at: float, taken_at: float, is_early: bool
) -> None:
    world, model = World(1), ApiServer(lambda: 0.0, Random(1))
    observed = Observed(world, model, [])
    LeaseTakenInTurn(observed)

    def at(now: float, holder: str) -> None:
        world.timeline.now = now
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": f"{now}"}
        model.etcd.put(LEASES, LEASE, {"metadata": {"name": "kube-scheduler"}, "spec": spec})

    at(0.5, "a")
    backup = model.etcd.save()
    at(lost_at, "a")
    model.etcd.restore(backup)
    at(taken_at, "b")
    assert bool(observed.violations.lines()) == is_early

from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import (
    Fault,
    FaultKind,
    Plan,
    carry_out,
    draw_plan,
)
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.programs import scheduler
from tests.worlds.simulation.served_model import ApiServers
from tests.worlds.simulation.world import World


def surroundings(seed: int = 1) -> Surroundings:
    world = World(seed)
    servers = ApiServers(world, "api-server", "10.0.0.1", MachineClocks(world.timeline))
    return Surroundings(world, {"replica-0": scheduler(world, "replica-0", servers.url)}, servers)


def plans(count: int, until: float = 300.0) -> list[Plan]:
    return [draw_plan(ALL_KINDS, surroundings(seed), until) for seed in range(count)]


def test_a_plan_depends_on_the_seed_alone() -> None:
    assert plans(5) == plans(5)
    assert len(set(plans(5))) == 5


def test_all_faults_end_in_time() -> None:
    drawn = [fault for plan in plans(50) for fault in plan]
    assert len(drawn) > 100
    assert all(0.0 <= fault.at <= fault.until <= 300.0 for fault in drawn)


def test_some_seeds_have_one_kind_and_some_have_nearly_all() -> None:
    kinds = [len({fault.kind for fault in plan}) for plan in plans(100, until=3000.0)]
    assert min(kinds) == 1
    assert max(kinds) > 0.8 * len(ALL_KINDS)


def test_the_history_shows_a_fault_and_its_end() -> None:
    ended: list[float] = []
    kind = FaultKind("darken", lambda _: ["sky"], lambda around, _: lambda: ended.append(around.world.timeline.now))
    around = surroundings()
    carry_out((Fault(1.5, "darken", "sky", seconds=2.0),), [kind], around)
    around.world.run(10.0)
    assert ended == [3.5]
    told = [" ".join(line.split()[2:]) for line in around.world.trace.lines]
    assert told == ["fault: darken sky for 2 s", "fault: darken sky ends"]


def test_a_given_plan_is_carried_out_instead() -> None:
    plan = (Fault(3.0, "kill", "replica-0"),)
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.2, has_faults=True, faults=plan))
    cluster.run()
    assert cluster.faults == plan
    assert [line for line in cluster.world.trace.lines if "was killed" in line]


def test_each_kind_has_a_name_of_its_own() -> None:
    assert len({kind.name for kind in ALL_KINDS}) == len(ALL_KINDS)

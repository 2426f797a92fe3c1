"""`serve` in a world, whose caller is `schedule`, with the service as an extender in kube-scheduler's place."""

import pytest

from tests.worlds.invariants.ledger import listen_to_ledgers
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.simulation.trace import traced_logs
from tests.worlds.simulation.watched_calls import watched_calls


@pytest.mark.parametrize("mode", ["beside", "replace", "preempting"])
def test_answers_calls_about_all_pods_without_the_system(mode: Mode) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, pods=20, mode=mode))
    with traced_logs(cluster.world.trace, cluster.world.who), watched_calls() as found:
        cluster.run()
    assert found == {}
    assert cluster.problems() == []
    decided = [line for line in cluster.world.trace.lines if " service: INFO decided " in line]
    assert sum(" verb=filter" in line for line in decided) >= 20
    assert any(" verb=bind" in line for line in decided) is (mode != "beside")
    bindings = [line for line in cluster.world.trace.lines if " 201 POST " in line and "/binding of " in line]
    assert {line.split(" of ")[1].split()[0] for line in bindings} == {"replica-0" if mode == "beside" else "service"}


@pytest.mark.parametrize("mode", ["beside", "replace", "preempting"])
def test_reserves_nodes_only_where_it_binds(mode: Mode) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, pods=20, mode=mode))
    reserved: list[str] = []
    listen_to_ledgers(cluster.world.network, lambda entry: reserved.append(entry.ledger.who))
    cluster.run()
    assert cluster.problems() == []
    assert set(reserved) == ({"replica-0"} if mode == "beside" else {"replica-0", "service"})


def test_ends_at_a_signal_once_its_calls_have_ended() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=1.0, pods=20, mode="replace"))
    service = cluster.service
    assert service is not None
    cluster.world.timeline.call_at(30.0, lambda: service.signal(15))
    with traced_logs(cluster.world.trace, cluster.world.who):
        cluster.run()
    assert any(line.endswith(" service: exits") for line in cluster.world.trace.lines)

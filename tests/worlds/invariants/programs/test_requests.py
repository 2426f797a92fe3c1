"""A request that another one holds up is reported, and so is a program that does the same again and again."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.turns import Turns
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.api_server.kinds import LEASES, PODS, SERVICES, Kind
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.programs.requests import RequestsApart, WatchesPaced, WorkPaced
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.served_model import ApiServers
from tests.worlds.simulation.world import World

NODES = "/api/v1/nodes"


@pytest.mark.parametrize("has_defect", [False, True])
@pytest.mark.parametrize("turns", [1, 2])
def test_one_request_that_waits_for_another_is_reported(
    turns: int, has_defect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_defect:  # in the same module
        code = KubeClient._answer.__code__
        monkeypatch.setattr(KubeClient._answer, "__code__", code.replace(co_firstlineno=code.co_firstlineno + 1))
    world = World(1)
    servers = ApiServers(world, "api-server", "10.0.0.1", MachineClocks(world.timeline))

    async def program(_: object) -> None:
        async with KubeClient(load_credentials(master=servers.url)) as client:
            client._reads = Turns(turns)
            with suppress(KubeError):
                await asyncio.gather(*(client.exchange("GET", f"{NODES}/{name}") for name in "ab"))

    process = Process(world, "replica-0", program)
    observed = Observed(world, servers.model, [process])
    RequestsApart(observed)
    servers.servers["api-server"].loop.stops += 1  # it hangs
    process.start()
    world.run(5.0)
    text = "4.000000 requests apart: replica-0 has 1 requests that wait, though only 1 are under way"
    assert observed.violations.lines() == ([text] if turns == 1 else [])
    servers.servers["api-server"].loop.stops -= 1
    world.run(10.0)
    assert process.outcome == "exits"


def test_lists_again_and_again_are_reported() -> None:
    world = World(1)
    observed = Observed(world, ApiServers(world, "api-server", "10.0.0.1", MachineClocks(world.timeline)).model, [])
    rule = WatchesPaced(observed)
    for number in range(300):
        world.timeline.now = number * 0.11
        rule._count(Served("replica-0", world.timeline.now, Request("GET", NODES), Response(410, b"")))
    assert observed.violations.lines() == []
    for _ in range(120):
        rule._count(Served("replica-0", world.timeline.now, Request("GET", f"{NODES}/a"), Response(200, b"")))
        rule._count(Served("replica-0", world.timeline.now, Request("GET", NODES), Response(410, b"")))
    text = f"replica-0 lists and watches {NODES} more than 100 times in 10 s"
    assert observed.violations.lines() == [f"32.890000 watches paced: {text}"]


class Writing:
    """A program that writes, and what is said of it."""

    def __init__(self, minor: int = 31) -> None:
        self._world = World(1)
        servers = ApiServers(self._world, "api-server", "10.0.0.1", MachineClocks(self._world.timeline), 1, minor)
        self._observed = Observed(self._world, servers.model, [])
        self._etcd = servers.model.etcd
        self._rule = WorkPaced(self._observed)

    def change(self, kind: Kind, **status: str) -> None:
        """Change an object, which may be new."""
        metadata = {"name": "a", "namespace": "default", "uid": "a"}
        self._etcd.put(kind, "default/a", {"metadata": metadata, "spec": {"nodeName": "one"}, "status": status})

    def ask_extenders(self) -> None:
        """Let it ask extenders."""
        self._rule._asks_extenders.add("replica-0")

    def write(self, times: int, path: str = "/api/v1/namespaces/default/pods/a/status", method: str = "PATCH") -> None:
        """Send a write again and again."""
        for _ in range(times):
            served = Served("replica-0", self._world.timeline.now, Request(method, path), Response(500, b""))
            self._rule._count_write(served)

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        self._world.timeline.now += seconds

    def reported(self) -> list[str]:
        """What is said, without the times."""
        return [line.partition(": ")[2] for line in self._observed.violations.lines()]


def test_a_write_again_and_again_is_reported() -> None:
    program = Writing()
    program.write(30)
    assert program.reported() == []
    program.write(10)
    status = "/api/v1/namespaces/default/pods/a/status"
    assert program.reported() == [f"replica-0 sends PATCH {status} more than 30 times in 10 s"]


def test_reads_are_not_nor_new_objects_nor_writes_of_several_objects_nor_those_that_take_their_time() -> None:
    program = Writing()
    program.write(40, method="GET")
    program.write(40, path="/api/v1/namespaces/default/events", method="POST")
    for number in range(40):
        program.write(2, path=f"/api/v1/namespaces/default/pods/pod-{number}", method="DELETE")
    for _ in range(5):
        program.write(30)
        program.pass_seconds(10.0)
    assert program.reported() == []


@pytest.mark.parametrize(("minor", "is_excused"), [(32, False), (33, True)])
def test_where_pods_leave_backoff_early_each_change_excuses_one_more_for_a_while(minor: int, is_excused: bool) -> None:
    program = Writing(minor)
    program.change(SERVICES)
    program.change(PODS)
    program.write(32)
    assert (program.reported() == []) is is_excused
    if is_excused:
        program.write(1)
        assert len(program.reported()) == 1
        program.pass_seconds(101.0)
        program.write(31)
        assert len(program.reported()) == 2


def test_a_change_that_wakes_no_pod_does_not() -> None:
    program = Writing(33)
    program.change(PODS)
    program.change(PODS, phase="Running")
    program.change(LEASES)
    program.write(32)
    assert len(program.reported()) == 1


@pytest.mark.parametrize("asks_extenders", [True, False])
def test_where_extenders_are_asked_each_change_of_the_pod_itself_does(asks_extenders: bool) -> None:
    program = Writing(33)
    program.change(PODS)
    if asks_extenders:
        program.ask_extenders()
    program.change(PODS, reason="first")
    program.change(PODS, reason="second")
    program.write(33)
    assert (program.reported() == []) is asks_extenders
    if asks_extenders:
        program.write(1)
        program.write(32, path="/api/v1/namespaces/default/pods/b/status")
        assert len(program.reported()) == 2


@pytest.mark.parametrize("mode", [None, "beside"])
def test_a_scheduler_that_asks_extenders_is_known(mode: Mode | None) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.2, nodes=1, pods=2, mode=mode))
    cluster.run()
    (rule,) = (rule for rule in cluster.holds._always if isinstance(rule, WorkPaced))
    assert rule._asks_extenders == (set() if mode is None else {"replica-0"})


@pytest.mark.parametrize("backs_off", [True, False])
def test_a_pod_that_is_tried_again_and_again_is_reported(backs_off: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.2, nodes=1, pods=0))
    requests = {"resources": {"requests": {"cpu": "100"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "image", **requests}]}
    pod = {"metadata": {"name": "large"}, "spec": spec, "status": {"phase": "Pending"}}

    def try_at_once() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        queue = insides.queue
        put_back = queue.add_unschedulable_if_not_present

        def put_back_as_active(info: QueuedPodInfo, cycle: int) -> bool:
            is_back = put_back(info, cycle)
            queue.activate([info.pod])
            return is_back

        queue.add_unschedulable_if_not_present = put_back_as_active  # type: ignore[method-assign]

    if not backs_off:
        cluster.world.timeline.call_at(3.0, try_at_once)
    cluster.world.timeline.call_at(4.0, partial(cluster._create, "pods", pod))
    cluster.run()
    found = [line for line in cluster.holds.observed.violations.lines() if " work paced: " in line]
    text = "work paced: replica-0 tries pod default/large more than 30 times in 10 s"
    assert any(line.endswith(text) for line in found) is not backs_off

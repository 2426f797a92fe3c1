"""A place that is given up while the pod is there is reported, unless the scheduler cannot know that it is.

So is a second one that is reserved for it, or a second binding that is asked for.
"""

import asyncio
from random import Random
from typing import Any, cast

import msgspec
import pytest

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from tests.support.objects import make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.ledger import Ledger
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.pods.bindings import BoundOnce, PlacesOfBoundPodsKept
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

POD, STATE = make_pod("a"), CycleState(make_pod("a"))
PATH = "/api/v1/namespaces/default/pods/a"
TEXT = "3.000000 places of bound pods kept: replica-0 gives up the place of default/a on one, where it has bound it"


class Binding:
    """A scheduler that reserves a node for a pod, and gives that up after what a test does in between."""

    def __init__(self) -> None:
        self.world = World(1)
        self.model = ApiServer(MachineClocks(self.world.timeline).wall, Random(1))
        ledgers: list[Ledger] = []

        async def run(_: object) -> None:
            ledgers.append(Ledger(None, cast(Handle, None)))
            await asyncio.sleep(100.0)

        self.process = Process(self.world, "replica-0", run)
        self.observed = Observed(self.world, self.model, [self.process])
        self.rule = PlacesOfBoundPodsKept(self.observed)
        self.process.start()
        self.world.run(1.0)
        [self.ledger] = ledgers
        self.ledger.reserve(STATE, POD, "one")

    def put(self, node_name: str, **metadata: Any) -> None:
        """Let the API server have the pod on a node."""
        value = {"metadata": {"name": "a", "namespace": "default", "uid": POD.metadata.uid, **metadata}}
        self.model.etcd.put(PODS, "default/a", {**value, "spec": {"nodeName": node_name}, "status": {}})

    def answer(self, request: Request, answer: Response, written_at: float) -> None:
        self.rule._see(Served("replica-0", written_at, request, answer))

    def bind(self, status: int = 201) -> None:
        body = msgspec.json.encode({"target": {"name": "one"}})
        self.answer(Request("POST", f"{PATH}/binding", {}, {}, body), Response(status, b""), 2.0)

    def read(self, written_at: float) -> None:
        """Let the scheduler read the pod, which is on no node."""
        self.answer(Request("GET", PATH), Response(200, b'{"spec":{}}'), written_at)

    def give_up(self) -> list[str]:
        """Let the scheduler give the place up; return what is said of that."""
        self.world.run(3.0)
        assert self.ledger is not None
        self.ledger.unreserve(STATE, POD, "one")
        self.world.run(40.0)
        return self.observed.violations.lines()


@pytest.mark.parametrize("status", [201, 500])
def test_what_was_bound_keeps_its_place_whatever_the_answer_was(status: int) -> None:
    binding = Binding()
    binding.read(1.0)
    binding.put("one")
    binding.bind(status)
    assert binding.give_up() == [TEXT]


def test_a_binding_that_arrives_after_the_pod_was_read_cannot_be_known() -> None:
    binding = Binding()
    binding.read(2.5)
    binding.put("one")
    binding.bind()
    assert binding.give_up() == []


@pytest.mark.parametrize("metadata", [{"uid": "another"}, {"deletionTimestamp": "now"}])
def test_the_place_of_a_pod_that_goes_may_be_given_up(metadata: dict[str, str]) -> None:
    binding = Binding()
    binding.put("one")
    binding.bind()
    binding.put("one", **metadata)
    assert binding.give_up() == []


def test_a_program_that_ends_may_give_up_all_that_it_has() -> None:
    binding = Binding()
    binding.put("one")
    binding.bind()
    binding.world.timeline.call_at(5.0, binding.process.kill)
    assert binding.give_up() == []


def test_a_bound_pod_gets_no_second_place() -> None:
    binding = Binding()
    binding.put("one")
    binding.bind()
    binding.world.run(3.0)
    binding.ledger.reserve(STATE, POD, "two")
    text = "replica-0 reserves two for default/a, which it has bound to one"
    assert binding.observed.violations.lines() == [f"3.000000 places of bound pods kept: {text}"]


def test_a_scheduler_that_has_read_the_pod_before_its_binding_arrived_may_reserve_another_place() -> None:
    binding = Binding()
    binding.read(2.5)
    binding.put("one")
    binding.bind()
    binding.world.run(3.0)
    binding.ledger.reserve(STATE, POD, "two")
    assert binding.observed.violations.lines() == []


class KnownBinding:
    """A scheduler that has bound a pod. It runs PostBind with `learn`. In the backup, the pod is on no node."""

    def __init__(self) -> None:
        self.binding = binding = Binding()
        self.etcd = binding.model.etcd
        self.rule = BoundOnce(binding.observed)
        binding.put("")
        self.backup = self.etcd.save()
        binding.put("one")
        binding.world.run(3.0)

    def learn(self) -> None:
        self.binding.ledger.post_bind(STATE, POD, "one")

    def ask_again(self, written_at: float, uid: str = "uid-of-a") -> list[str]:
        """Let the scheduler ask for a binding; return what is said of that."""
        body = msgspec.json.encode({"metadata": {"name": "a", "uid": uid}, "target": {"name": "two"}})
        request = Request("POST", f"{PATH}/binding", {}, {}, body)
        self.rule._check(Served("replica-0", written_at, request, Response(409, b"")))
        return self.binding.observed.violations.lines()


def test_a_binding_of_a_pod_that_a_scheduler_knows_to_be_bound_is_reported() -> None:
    known = KnownBinding()
    known.learn()
    text = f"replica-0 sent POST {PATH}/binding at 3.500000, and had run PostBind for that pod at 3.000000"
    assert known.ask_again(3.5) == [f"3.000000 bound once: {text}"]


def test_a_binding_may_be_asked_for_by_whoever_cannot_know_that_there_is_one() -> None:
    known = KnownBinding()
    assert known.ask_again(3.5) == []
    known.learn()
    assert known.ask_again(2.9) == []
    assert known.ask_again(3.5, uid="of a pod that was made again") == []
    known.binding.process.started_at = 3.2
    assert known.ask_again(3.5) == []


@pytest.mark.parametrize("is_known_before", [True, False])
def test_a_pod_may_be_bound_again_whose_binding_a_backup_takes_back(is_known_before: bool) -> None:
    known = KnownBinding()
    if is_known_before:
        known.learn()
    known.etcd.restore(known.backup)
    if not is_known_before:
        known.learn()
    assert known.ask_again(3.5) == []

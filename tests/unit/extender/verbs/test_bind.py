import asyncio
import logging
from collections.abc import Callable

import pytest

from extender_service.extender.modes import Mode
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Bind, PostBind, PreFilter, Reserve
from extender_service.framework.status import SKIP, Status, unschedulable
from extender_service.kube.api_errors import KubeError, UnreachableError
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import ExtenderBindingArgs
from extender_service.scheduling.under_way import BindError
from tests.support.clusters.extender_world import ExtenderWorld, Hold
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = WEB.metadata.uid
LOST = UnreachableError("the connection was lost")


def world_with(pod: Pod | None = WEB, *, confirm_seconds: float = 30) -> ExtenderWorld:
    """Nodes a and b, and a pod that the API server and the watch know, unless it is None."""
    world = ExtenderWorld(make_node("a"), make_node("b"), mode="replace", confirm_seconds=confirm_seconds)
    if pod is not None:
        world.pods.put(pod)
        world.cluster.apply_pod(pod)
    return world


def bind(world: ExtenderWorld, node_name: str, uid: str | None = None) -> str:
    return asyncio.run(world.bind(WEB, node_name, uid))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


def test_a_pod_is_bound_with_its_uid_and_counts_until_the_watch_shows_it() -> None:
    world = world_with()
    assert bind(world, "a") == ""
    assert world.pods.bound == [("default", "web", UID, "a")]
    assert (world.expected_on(WEB), world.cpu_milli("a")) == ("a", 1000)
    world.cluster.apply_pod(world.pods.pods["default", "web"])
    assert (world.expected_on(WEB), world.cpu_milli("a")) == (None, 1000)
    (observation,) = world.observations
    assert (observation.verb, observation.pod, observation.node_name) == ("bind", "default/web", "a")
    assert (observation.asked, observation.passed, observation.error) == (1, 1, "")


def test_an_expected_pod_does_not_count_twice() -> None:
    world = world_with()

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        assert await world.bind(WEB, "a") == ""

    asyncio.run(calls())
    assert world.pods.reads == 0
    assert world.cpu_milli("a") == 1000


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("replace", "pod default/web has no place on a any more, and does not fit there: Insufficient cpu"),
        ("beside", ""),  # kube-scheduler's own plugins have looked
    ],
)
def test_a_service_that_restarted_after_filter_binds_a_pod_only_if_it_still_fits(mode: Mode, error: str) -> None:
    world = ExtenderWorld(make_node("a", {"cpu": "1", "pods": "9"}), mode=mode)
    world.pods.put(WEB)
    world.cluster.apply_pod(WEB)
    world.cluster.apply_pod(make_pod("other", "a", requests={"cpu": "1"}))  # got the room meanwhile
    assert bind(world, "a") == error
    assert len(world.pods.bound) == (0 if error else 1)
    world.cluster.remove_pod(("default", "other"))
    assert bind(world, "a") == ""
    assert len(world.pods.bound) == 1


def test_an_assumed_pod_does_not_expire() -> None:
    world = world_with()
    bind(world, "a")
    world.clock.pass_seconds(10_000)
    world.extender.expectations.expire()
    assert world.expected_on(WEB) == "a"


def test_another_node_than_the_expected_one_moves_the_pod() -> None:
    world = world_with()

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        assert await world.bind(WEB, "b") == ""

    asyncio.run(calls())
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == (0, 1000)


class OneSlot(Reserve):
    """Sets aside the only slot that there is."""

    name = "OneSlot"
    holder = ""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.holder:
            return unschedulable(f"taken on {self.holder}")
        self.holder = node_name
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.holder == node_name:
            self.holder = ""


def test_what_was_set_aside_on_the_expected_node_is_free_on_another() -> None:
    world = world_with()
    slot = OneSlot(None, Handle(world.cluster, world.pods))
    world.profile.reserve = (slot,)

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        assert slot.holder == "a"
        assert await world.bind(WEB, "b") == ""

    asyncio.run(calls())
    assert slot.holder == "b"


@pytest.mark.parametrize("known_by", ["watch", "API server"])
def test_a_pod_that_is_bound_to_this_node_already_is_bound(known_by: str) -> None:
    world = world_with()
    bound = world.pods.put(WEB, "a")
    if known_by == "watch":
        world.cluster.apply_pod(bound)
    assert bind(world, "a") == ""
    assert world.pods.bound == []


def test_a_binding_that_a_restored_etcd_has_lost_is_not_reported_as_done() -> None:
    """The watch still shows it, while the caller's has shown that it is lost."""
    world = world_with()
    world.cluster.apply_pod(make_pod("web", "a"))
    assert bind(world, "a") == "pod default/web is no longer bound to a: etcd was restored"
    assert world.pods.bound == []
    world.cluster.apply_pod(WEB)
    assert bind(world, "a") == ""
    assert world.pods.bound == [("default", "web", UID, "a")]


@pytest.mark.parametrize("known_by", ["watch", "API server"])
def test_a_pod_that_is_bound_elsewhere_is_not_bound(known_by: str) -> None:
    world = world_with()
    bound = world.pods.put(WEB, "b")
    if known_by == "watch":
        world.cluster.apply_pod(bound)
    assert bind(world, "a") == "pod default/web is already bound to b"
    assert world.pods.bound == []
    assert world.observations[0].error == "pod default/web is already bound to b"
    assert world.observations[0].pod == "default/web"


def test_a_pod_that_is_gone_is_not_bound() -> None:
    assert bind(world_with(None), "a") == "pod default/web does not exist"


def test_a_pod_of_the_same_name_with_another_uid_is_not_bound() -> None:
    world = world_with(make_pod("web", uid="new"))
    assert bind(world, "a") == f"pod default/web is another one now: its UID is new, not {UID}"
    assert world.pods.bound == []


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (None, 'pods "web" not found (404 NotFound)'),
        (make_pod("web", uid="new"), "the UID in the precondition is another (409 Conflict)"),
        (make_pod("web", "b"), "pod default/web is already bound to b"),
    ],
)
def test_what_became_of_the_pod_since_it_was_asked_about(now: Pod | None, says: str) -> None:
    """The pod is known from Filter, so that only the API server's precondition tells."""
    world = world_with()

    async def calls() -> str:
        await world.filter(WEB, ["a"])
        world.pods.pods.clear()
        if now is not None:
            world.pods.put(now)
        return await world.bind(WEB, "a")

    assert asyncio.run(calls()).endswith(says)
    assert world.expected_on(WEB) is None
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == (0, 0)


def test_a_failure_is_told_and_forgotten_and_can_be_tried_again() -> None:
    world = world_with()
    world.pods.applies = False
    world.pods.bind_errors = [KubeError("etcd is tired")]
    assert bind(world, "a") == "binding default/web to a: etcd is tired"
    assert (world.expected_on(WEB), world.cpu_milli("a")) == (None, 0)
    world.pods.applies = True
    assert bind(world, "b") == ""
    assert (world.expected_on(WEB), world.cpu_milli("b")) == ("b", 1000)


class Balance(Reserve, PostBind):
    """Notes how each reservation ends."""

    name = "Balance"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.calls.append("reserve")
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls.append("unreserve")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls.append("post_bind")


def test_a_reservation_ends_where_an_earlier_binding_is_carried_out_late() -> None:
    world = world_with()
    balance = Balance(None, Handle(world.cluster, world.pods))
    world.profile.reserve, world.profile.post_bind = (balance,), (balance,)
    world.pods.applies = False
    world.pods.bind_errors = [LOST]

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        assert await world.bind(WEB, "a") == "binding default/web to a: the connection was lost"
        await world.filter(WEB, ["a"])
        world.cluster.apply_pod(world.pods.put(WEB, "a"))
        assert await world.bind(WEB, "a") == ""

    asyncio.run(calls())
    assert balance.calls == ["reserve", "unreserve", "reserve", "post_bind"]


class Labelled(PreFilter):
    """Stores a label of the pod, and keeps what it finds in the state at the end."""

    name = "Labelled"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.found: list[str] = []

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        state[self] = pod.metadata.name
        return None


class LabelledBind(Labelled, Bind):
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.found.append(state[self])
        return SKIP


class LabelledPostBind(Labelled, PostBind):
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.found.append(state[self])


@pytest.mark.parametrize("kind", [LabelledBind, LabelledPostBind])
def test_bind_and_post_bind_find_what_pre_filter_stored_also_without_an_earlier_decision(kind: type[Labelled]) -> None:
    world = ExtenderWorld(make_node("a"), mode="replace", plugins={})  # without VolumeBinding, which reserves
    world.pods.put(WEB)
    plugin = kind(None, Handle(world.cluster, world.pods))
    world.profile.pre_filter = (plugin,)
    if isinstance(plugin, Bind):
        world.profile.bind = (plugin, *world.profile.bind)
    if isinstance(plugin, PostBind):
        world.profile.post_bind = (plugin,)
    assert bind(world, "a") == ""
    assert plugin.found == ["web"]


def test_a_profile_whose_plugins_only_decide_or_only_bind_runs_none_of_them_again_to_bind() -> None:
    world = ExtenderWorld(make_node("a"), mode="replace", plugins={})
    world.profile.pre_filter = (LabelledBind(None, Handle(world.cluster, world.pods)),)
    assert not world.profile.needs_state_to_bind


def test_a_write_whose_answer_was_lost_is_found_by_reading() -> None:
    world = world_with()
    world.pods.bind_errors = [LOST]
    assert bind(world, "a") == ""
    assert world.expected_on(WEB) == "a"


def test_while_nobody_can_tell_the_pod_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_service.scheduling.confirmations.RETRY_SECONDS", 0.01)
    world = world_with()

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        world.pods.applies = False
        world.pods.bind_errors = [LOST]
        world.pods.read_errors = [LOST, LOST, LOST]
        assert await world.bind(WEB, "a") == "binding default/web to a: the connection was lost"
        assert world.expected_on(WEB) == "a"
        # Later it turns out that the pod was not bound.
        await until(lambda: world.expected_on(WEB) is None)

    asyncio.run(calls())
    assert (world.pods.reads, world.cpu_milli("a")) == (4, 0)


def test_the_room_of_a_pod_whose_binding_is_tried_again_is_not_given_away() -> None:
    """A test with an API server that failed a fifth of all calls found a node with more on it than it has."""
    world = world_with()

    async def calls() -> None:
        world.pods.applies = False
        world.pods.bind_errors = [LOST]
        world.pods.read_errors = [LOST]
        await world.filter(WEB, ["a"])
        assert await world.bind(WEB, "a") == "binding default/web to a: the connection was lost"
        world.pods.applies = True
        again, hold = await begin(world, "a")
        assert (await world.filter(make_pod("big", requests={"cpu": "4"}), ["a"]))["NodeNames"] == []
        hold.go_on.set()
        assert await again == ""
        assert world.cpu_milli("a") == 1000

    asyncio.run(calls())
    assert world.pods.reads == 2  # after the first try, and before the second


def test_nor_is_it_where_the_pod_was_being_read_when_that_began() -> None:
    world = world_with()

    async def calls() -> None:
        world.pods.bind_errors, world.pods.read_errors = [LOST], [LOST]
        world.pods.applies = False
        await world.filter(WEB, ["a"])
        assert "the connection was lost" in await world.bind(WEB, "a")
        world.pods.read_hold = being_read = Hold()
        reading = asyncio.create_task(world.engine.binder.confirmations.read_after_binding(UID))
        await being_read.arrived.wait()
        world.pods.read_hold = Hold()
        binding = asyncio.create_task(world.bind(WEB, "a"))
        await world.pods.read_hold.arrived.wait()
        being_read.go_on.set()
        assert await reading is None
        assert (world.expected_on(WEB), world.cpu_milli("a")) == ("a", 1000)
        world.pods.applies = True
        world.pods.read_hold.go_on.set()
        assert await binding == ""

    asyncio.run(calls())
    assert world.cpu_milli("a") == 1000


def test_a_binding_that_the_watch_does_not_show_is_read_again_and_again() -> None:
    world = world_with(confirm_seconds=0.01)

    async def calls() -> None:
        assert await world.bind(WEB, "a") == ""
        await until(lambda: world.pods.reads > 3)
        assert (world.expected_on(WEB), world.cpu_milli("a")) == ("a", 1000)
        world.pods.put(make_pod("web", "a", phase="Succeeded"))
        await until(lambda: world.expected_on(WEB) is None)

    asyncio.run(calls())
    assert world.cpu_milli("a") == 0


def test_a_pod_that_the_watch_shows_bound_while_it_is_read_is_not_assumed() -> None:
    world = world_with()

    async def calls() -> None:
        world.pods.read_hold = Hold()
        binding = asyncio.create_task(world.bind(WEB, "a"))
        await world.pods.read_hold.arrived.wait()
        world.cluster.apply_pod(make_pod("web", "b", requests={"cpu": "1"}))
        world.pods.read_hold.go_on.set()
        assert await binding == "pod default/web is already bound to b"

    asyncio.run(calls())
    assert (world.pods.bound, world.cpu_milli("a"), world.cpu_milli("b")) == ([], 0, 1000)


@pytest.mark.parametrize("now", [None, WEB, make_pod("web", uid="new")])
def test_a_binding_that_came_to_nothing_is_found_by_reading(now: Pod | None, caplog: pytest.LogCaptureFixture) -> None:
    world = world_with(confirm_seconds=0.01)

    async def calls() -> None:
        assert await world.bind(WEB, "a") == ""
        world.pods.pods.clear()
        if now is not None:
            world.pods.put(now)
        await until(lambda: world.expected_on(WEB) is None)

    caplog.clear()
    asyncio.run(calls())
    assert world.cpu_milli("a") == 0
    # One that has gone was bound before.
    warnings = ["a pod that was to be bound is not"] if now is WEB else []
    assert [record.getMessage() for record in caplog.records] == warnings


def test_an_api_server_that_is_silent_too_is_asked_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender_service.scheduling.confirmations.RETRY_SECONDS", 0.01)
    world = world_with(confirm_seconds=0.01)

    async def calls() -> None:
        assert await world.bind(WEB, "a") == ""
        world.pods.read_errors = [LOST, LOST]
        world.pods.put(WEB)
        await until(lambda: world.expected_on(WEB) is None)

    caplog.clear()
    asyncio.run(calls())
    assert world.pods.reads == 4  # before the binding, twice in vain, and at last
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert world.cpu_milli("a") == 0


def test_what_the_watch_confirmed_is_not_read() -> None:
    world = world_with(confirm_seconds=0.01)

    async def calls() -> None:
        assert await world.bind(WEB, "a") == ""
        world.cluster.apply_pod(world.pods.pods["default", "web"])
        await asyncio.sleep(0.05)

    asyncio.run(calls())
    assert world.pods.reads == 1  # before the binding


# Several callers, and callers that do not wait.


async def begin(world: ExtenderWorld, node_name: str) -> tuple["asyncio.Task[str]", Hold]:
    """A binding that has reached the API server, and waits there."""
    world.pods.hold = Hold()
    binding = asyncio.create_task(world.bind(WEB, node_name))
    await world.pods.hold.arrived.wait()
    return binding, world.pods.hold


def test_a_repeated_bind_joins_the_one_under_way() -> None:
    world = world_with()

    async def calls() -> list[str]:
        first, hold = await begin(world, "a")
        more = [asyncio.create_task(world.bind(WEB, "a")) for _ in range(3)]
        await asyncio.sleep(0)
        hold.go_on.set()
        return list(await asyncio.gather(first, *more))

    assert asyncio.run(calls()) == [""] * 4
    assert len(world.pods.bound) == 1


def test_all_who_joined_hear_of_a_failure() -> None:
    world = world_with()
    world.pods.applies = False
    world.pods.bind_errors = [KubeError("etcd is tired")]

    async def calls() -> list[str]:
        first, hold = await begin(world, "a")
        second = asyncio.create_task(world.bind(WEB, "a"))
        await asyncio.sleep(0)
        hold.go_on.set()
        return list(await asyncio.gather(first, second))

    assert asyncio.run(calls()) == ["binding default/web to a: etcd is tired"] * 2


def test_a_bind_to_another_node_meanwhile_is_refused() -> None:
    world = world_with()

    async def calls() -> list[str]:
        first, hold = await begin(world, "a")
        refused = await world.bind(WEB, "b")
        hold.go_on.set()
        return [refused, await first]

    assert asyncio.run(calls()) == ["pod default/web is being bound to a", ""]


def test_a_bind_of_a_bound_pod_later_is_a_success() -> None:
    world = world_with()
    assert [bind(world, "a"), bind(world, "a")] == ["", ""]
    assert len(world.pods.bound) == 1
    assert world.cpu_milli("a") == 1000


def test_a_caller_that_hangs_up_undoes_nothing() -> None:
    world = world_with()

    async def calls() -> None:
        binding, hold = await begin(world, "a")
        binding.cancel()
        await asyncio.sleep(0)
        hold.go_on.set()
        await until(lambda: world.pods.pods["default", "web"].spec.node_name == "a")

    asyncio.run(calls())
    assert world.expected_on(WEB) == "a"


def test_a_binding_that_is_undone_before_it_begins_is_an_error() -> None:
    """As when the lease is lost in the very turn of the event loop in which the call arrives."""
    world = world_with()
    args = ExtenderBindingArgs("web", "default", UID, "a")

    async def calls() -> None:
        await world.filter(WEB, ["a"])
        call = asyncio.create_task(world.extender.bind(args, lambda: False))
        await asyncio.sleep(0)
        world.extender.give_up("the lease was lost")
        with pytest.raises(BindError, match=r"^binding default/web to a: the lease was lost$"):
            await call
        assert (world.expected_on(WEB), world.cpu_milli("a")) == (None, 0)
        assert world.pods.bound == []

    asyncio.run(calls())


def test_closing_waits_for_bindings_under_way() -> None:
    world = world_with()

    async def calls() -> str:
        binding, hold = await begin(world, "a")
        closing = asyncio.create_task(world.extender.close(1.0))
        await asyncio.sleep(0.01)
        assert not closing.done()
        hold.go_on.set()
        await closing
        return await binding

    assert asyncio.run(calls()) == ""
    assert world.pods.pods["default", "web"].spec.node_name == "a"


def test_closing_undoes_what_does_not_finish_and_what_is_expected() -> None:
    world = world_with()
    later = make_pod("later", requests={"cpu": "1"})

    async def calls() -> str:
        binding, _ = await begin(world, "a")
        await world.filter(later, ["b"])
        assert world.expected_on(later) == "b"
        await world.extender.close(0.01)
        return await binding

    assert asyncio.run(calls()) == "binding default/web to a: extender-service was stopped"
    assert (world.expected_on(WEB), world.expected_on(later)) == (None, None)
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == (0, 0)


def test_closing_undoes_a_binding_whose_pod_is_being_read() -> None:
    world = world_with()
    hold = world.pods.read_hold = Hold()

    async def calls() -> str:
        binding = asyncio.create_task(world.bind(WEB, "a"))
        await hold.arrived.wait()
        await world.extender.close(0.0)
        return await binding

    assert asyncio.run(calls()) == "binding default/web to a: extender-service was stopped"


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_every_field_is_needed(missing: str) -> None:
    body = {"PodName": "web", "PodNamespace": "default", "PodUID": UID, "Node": "a"}
    del body[missing]
    world = world_with()
    assert asyncio.run(world.call("bind", body)) == {"Error": f"{missing} is missing"}
    assert world.pods.bound == []

import asyncio
import functools
import math
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, RejectedError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Bind, Permit, PostBind, PreBind, Reserve
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.profile import Profile
from extender_service.framework.status import SKIP, Code, Status, unschedulable
from extender_service.kube.types.core import ObjectMeta, Pod
from extender_service.scheduling.binding_cycle import BindingCycle

POD = Pod(ObjectMeta(name="web", namespace="default", uid="uid"))


class Recorder(Reserve, Permit, PreBind, Bind, PostBind):
    """Notes what it is called for, and answers as it is told."""

    name: ClassVar[str] = "Recorder"
    label = "recorder"

    def __init__(self, label: str, calls: list[str], **answers: object) -> None:
        cluster = Cluster()
        super().__init__(None, Handle(cluster, ClusterFile(cluster, [])))
        self.label = label
        self.calls = calls
        self.answers = answers

    def _answer(self, point: str) -> Status | None:
        self.calls.append(f"{point} {self.label}")
        answer = self.answers.get(point)
        if isinstance(answer, BaseException):
            raise answer
        assert answer is None or isinstance(answer, Status)
        return answer

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._answer("unreserve")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        seconds = self.answers.get("wait_seconds", 0.0)
        assert isinstance(seconds, float)
        return self._answer("permit"), seconds

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("pre_bind")

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("bind")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._answer("post_bind")


def cycle_of(*plugins: Recorder) -> tuple[BindingCycle, Profile]:
    points = {
        point: [(plugin, 0) for plugin in plugins] for point in ("reserve", "permit", "preBind", "bind", "postBind")
    }
    profile = Profile("default-scheduler", points)
    return BindingCycle(profile, CycleState(POD), POD, "a"), profile


async def whole(cycle: BindingCycle) -> None:
    cycle.reserve()
    await cycle.run_to_bind()
    cycle.run_post_bind()


def test_the_steps_run_in_order_and_the_first_bind_plugin_that_takes_the_pod_is_the_last() -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls, bind=SKIP), Recorder("b", calls), Recorder("c", calls))
    asyncio.run(whole(cycle))
    steps = ["reserve", "permit", "pre_bind"]
    assert calls == [
        *(f"{step} {label}" for step in steps for label in "abc"),
        *("bind a", "bind b"),
        *("post_bind a", "post_bind b", "post_bind c"),
    ]


@pytest.mark.parametrize("refusal", [unschedulable("no slot"), PluginError("no slot")])
def test_a_refused_reservation_is_undone_in_reverse_for_all(refusal: object) -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls), Recorder("b", calls, reserve=refusal), Recorder("c", calls))
    with pytest.raises(CycleError, match='running Reserve plugin "Recorder": no slot'):
        cycle.reserve()
    assert calls == ["reserve a", "reserve b", "unreserve c", "unreserve b", "unreserve a"]


# The latter is what the task of a plugin ended with that it runs in the background.
FAILURES = [RuntimeError("broken"), asyncio.CancelledError("stopped")]


@pytest.mark.parametrize("failure", FAILURES)
def test_an_unreserve_that_fails_does_not_keep_the_others_from_it(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls), Recorder("b", calls, unreserve=failure))
    cycle.unreserve()
    assert calls == ["unreserve b", "unreserve a"]
    assert [record.getMessage() for record in caplog.records] == ["Unreserve failed"]


@pytest.mark.parametrize(("point", "name"), [("permit", "Permit"), ("pre_bind", "PreBind"), ("bind", "Bind")])
def test_a_refusal_stops_the_cycle_and_names_the_plugin(point: str, name: str) -> None:
    cycle, _ = cycle_of(Recorder("a", [], **{point: unschedulable("not now")}))
    with pytest.raises(CycleError, match=f'running {name} plugin "Recorder": not now'):
        asyncio.run(whole(cycle))


def test_a_pod_that_is_to_wait_in_pre_bind_is_rejected() -> None:
    cycle, _ = cycle_of(Recorder("a", [], pre_bind=Status(Code.PENDING, ("not yet",))))
    with pytest.raises(RejectedError, match='running PreBind plugin "Recorder": not yet') as raised:
        asyncio.run(whole(cycle))
    assert raised.value.status.code == Code.UNSCHEDULABLE


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
def test_a_plugin_that_raises_is_an_error_with_its_name(point: str) -> None:
    cycle, _ = cycle_of(Recorder("a", [], **{point: KeyError("x")}))
    name = {"pre_bind": "PreBind"}.get(point, point.capitalize())
    with pytest.raises(CycleError, match=f"^running {name} plugin \"Recorder\": KeyError: 'x'$"):
        asyncio.run(whole(cycle))


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
def test_an_answer_of_another_type_is_an_error_that_names_the_plugin(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls))

    def answering(*_: object) -> object:
        return True

    async def awaiting(*_: object) -> object:
        return True

    monkeypatch.setattr(Recorder, point, awaiting if point in ("pre_bind", "bind") else answering)
    name = {"pre_bind": "PreBind"}.get(point, point.capitalize())
    with pytest.raises(CycleError, match=f'^running {name} plugin "Recorder": it returned bool, not a Status or None'):
        asyncio.run(whole(cycle))
    assert (calls == ["unreserve a"]) == (point == "reserve")


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_step_that_is_no_coroutine_is_an_error_that_names_the_plugin(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, _ = cycle_of(Recorder("a", []))

    def failing(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(Recorder, point, failing)
    with pytest.raises(CycleError, match="plugin \"Recorder\": KeyError: 'x'"):
        asyncio.run(whole(cycle))


@pytest.mark.parametrize(("point", "name"), [("pre_bind", "PreBind"), ("bind", "Bind")])
def test_a_step_that_awaited_a_cancelled_task_is_an_error_that_names_the_plugin(
    point: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, _ = cycle_of(Recorder("a", []))

    async def awaiting(*_: object) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    monkeypatch.setattr(Recorder, point, awaiting)
    with pytest.raises(CycleError, match=f'^running {name} plugin "Recorder": CancelledError: '):
        asyncio.run(whole(cycle))


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_binding_that_is_cancelled_itself_ends_as_cancelled(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cycle, _ = cycle_of(Recorder("a", []))
    begun = asyncio.Event()

    async def awaiting(*_: object) -> None:
        begun.set()
        await asyncio.sleep(60)

    async def cancelled() -> None:
        running = asyncio.create_task(whole(cycle))
        await begun.wait()
        running.cancel()
        await running

    monkeypatch.setattr(Recorder, point, awaiting)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


@pytest.mark.parametrize("is_preempted", [False, True])
def test_no_plugin_begins_pre_bind_once_the_binding_is_cancelled_though_the_one_before_finishes(
    is_preempted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    finishing, next_one = Recorder("a", calls), Recorder("b", calls)
    cycle, _ = cycle_of(finishing, next_one)
    begun = asyncio.Event()

    async def to_the_end(*_: object) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        calls.append("pre_bind a")

    monkeypatch.setattr(finishing, "pre_bind", to_the_end)

    async def ended() -> None:
        running = asyncio.create_task(whole(cycle))
        await begun.wait()
        if is_preempted:
            assert cycle.preempt_in_pre_bind("preempted")
        else:
            running.cancel()
        await running

    with pytest.raises(CycleError if is_preempted else asyncio.CancelledError):
        asyncio.run(ended())
    assert [call for call in calls if "bind" in call] == ["pre_bind a"]


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_step_under_a_decorator_is_awaited(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls))
    step = getattr(Recorder, point)

    @functools.wraps(step)
    def traced(*args: object) -> object:
        calls.append("traced")
        return step(*args)

    monkeypatch.setattr(Recorder, point, traced)
    asyncio.run(whole(cycle))
    assert calls[calls.index("traced") + 1] == f"{point} a"
    assert calls[-1] == "post_bind a"


@pytest.mark.parametrize(("point", "name"), [("pre_bind", "PreBind"), ("bind", "Bind")])
@pytest.mark.parametrize("answer", [None, unschedulable("not now")])
def test_a_step_that_returns_nothing_to_await_is_an_error_that_names_the_plugin(
    point: str, name: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle, _ = cycle_of(Recorder("a", []))
    monkeypatch.setattr(Recorder, point, lambda *_: answer)
    says = f'^running {name} plugin "Recorder": it returned {type(answer).__name__}, not an awaitable: '
    with pytest.raises(CycleError, match=says):
        asyncio.run(whole(cycle))


@pytest.mark.parametrize("failure", FAILURES)
def test_a_post_bind_that_raises_does_not_keep_the_others_from_it(
    failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []
    cycle, _ = cycle_of(Recorder("a", calls, post_bind=failure), Recorder("b", calls))
    cycle.run_post_bind()
    assert calls == ["post_bind a", "post_bind b"]
    assert [record.getMessage() for record in caplog.records] == ["PostBind failed"]


def test_a_pod_that_no_plugin_binds_is_an_error() -> None:
    cycle, _ = cycle_of(Recorder("a", [], bind=SKIP))
    with pytest.raises(CycleError, match="no Bind plugin took the pod"):
        asyncio.run(whole(cycle))
    assert not cycle.has_reached_bind  # so the pod need not be read


def waiting(
    act: Callable[[Profile], None], seconds: float = 60.0, give_up: Callable[[BindingCycle], None] = lambda _: None
) -> list[str]:
    """Run a cycle that waits, and act on it or give it up once it does; returns the calls."""
    calls: list[str] = []
    cycle, profile = cycle_of(Recorder("a", calls, permit=Status(Code.WAIT), wait_seconds=seconds))

    async def run() -> None:
        running = asyncio.create_task(whole(cycle))
        while not len(profile.waiting_pods):
            await asyncio.sleep(0)
        act(profile)
        give_up(cycle)
        await running

    try:
        asyncio.run(run())
    finally:
        assert len(profile.waiting_pods) == 0
    return calls


def test_a_pod_waits_until_its_plugin_allows_it() -> None:
    def allow(profile: Profile) -> None:
        pod = profile.waiting_pods.get("uid")
        assert pod is not None
        assert (pod.node_name, pod.pending_plugins) == ("a", ["Recorder"])
        pod.allow("Recorder")

    assert waiting(allow)[-2:] == ["bind a", "post_bind a"]


def test_a_pod_that_waits_can_be_rejected() -> None:
    def reject(profile: Profile) -> None:
        for pod in profile.waiting_pods:
            pod.reject("Recorder", "the gang is not complete")

    with pytest.raises(CycleError, match='waiting on Permit plugin "Recorder": the gang is not complete'):
        waiting(reject)


def test_a_rejection_is_known_at_once_and_is_the_last_word() -> None:
    def reject(profile: Profile) -> None:
        [pod] = profile.waiting_pods
        assert not pod.is_rejected
        pod.reject("Recorder", "the gang is not complete")
        pod.allow("Recorder")
        assert pod.is_rejected

    with pytest.raises(CycleError, match="the gang is not complete"):
        waiting(reject)


def test_a_pod_that_is_allowed_is_not_rejected() -> None:
    def allow(profile: Profile) -> None:
        [pod] = profile.waiting_pods
        pod.allow("Recorder")
        assert not pod.is_rejected

    waiting(allow)


def test_a_pod_that_waits_for_too_long_is_rejected() -> None:
    with pytest.raises(CycleError, match=r"rejected due to timeout after waiting 10ms at plugin Recorder"):
        waiting(lambda _: None, seconds=0.01)


@pytest.mark.parametrize(("seconds", "waited"), [(-5.0, "-5s"), (-math.inf, "-15m0s"), (-1e300, "-15m0s")])
def test_a_pod_that_may_wait_for_less_than_nothing_is_rejected_at_once(seconds: float, waited: str) -> None:
    with pytest.raises(CycleError, match=f"rejected due to timeout after waiting {waited} at plugin Recorder"):
        waiting(lambda _: None, seconds)


def test_a_pod_whose_place_is_given_up_waits_no_longer() -> None:
    with pytest.raises(CycleError, match="its place was given up"):
        waiting(lambda _: None, give_up=BindingCycle.unreserve)


class Times:
    """What is recorded: extension points and plugins, with their outcome."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []
        self.plugins: list[tuple[str, str]] = []

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        self.points.append((point, status))

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins.append((point, status))

    def record_permit_wait(self, status: str, seconds: float) -> None:
        pass


async def timed(plugin: Recorder) -> Times:
    points = {point: [(plugin, 0)] for point in ("reserve", "permit", "preBind", "bind", "postBind")}
    profile = Profile("default-scheduler", points)
    profile.recorder = times = Times()
    cycle = BindingCycle(profile, CycleState(POD, times), POD, "a")
    with suppress(CycleError):
        await whole(cycle)
    return times


def test_each_step_is_timed_for_the_point_and_for_its_plugins() -> None:
    times = asyncio.run(timed(Recorder("a", [])))
    steps = [(point, "Success") for point in ("Reserve", "Permit", "PreBind", "Bind", "PostBind")]
    assert times.points == times.plugins == steps


@pytest.mark.parametrize(
    ("point", "answer", "code"),
    [
        ("reserve", unschedulable("no slot"), "Unschedulable"),
        ("permit", unschedulable("not now"), "Unschedulable"),
        ("pre_bind", PluginError("broken"), "Error"),
        ("bind", KeyError("x"), "Error"),
    ],
)
def test_a_step_that_fails_is_timed_with_its_outcome(point: str, answer: object, code: str) -> None:
    times = asyncio.run(timed(Recorder("a", [], **{point: answer})))
    name = {"pre_bind": "PreBind"}.get(point, point.capitalize())
    assert (name, code) in times.points
    assert (name, code) in times.plugins


def test_a_wait_in_permit_is_an_outcome_of_its_own() -> None:
    times = asyncio.run(timed(Recorder("a", [], permit=Status(Code.WAIT), wait_seconds=0.01)))
    assert times.points[1:] == times.plugins[1:] == [("Permit", "Wait")]


def test_a_bind_plugin_that_leaves_the_pod_to_others_skips() -> None:
    times = asyncio.run(timed(Recorder("a", [], bind=SKIP)))
    assert ("Bind", "Skip") in times.plugins
    assert ("Bind", "Error") in times.points  # no plugin took the pod

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from extender_service.kube.api_errors import SilentError
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import PODS, WATCHED_PODS, Resource
from extender_service.kube.resources.nodes_with_json import NODES_WITH_JSON
from extender_service.kube.resources.pods_by_need import pods_by_need
from extender_service.kube.types.core import Pod
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.watching.reflector import Limits, Reflector
from extender_service.kube.watching.watch_state import ServerWatches, WatchState
from tests.support.servers.fake_api_server import (
    BREAKS,
    EXPIRED,
    FORBIDDEN,
    INTERNAL,
    REFUSALS,
    THROTTLED,
    TOO_LARGE,
    UNAUTHORIZED,
    FakeApiServer,
)
from tests.support.servers.http_server import Handler, Request, Response, http_server


@dataclass
class PodStore:
    """Holds pods by key and remembers what was done to it."""

    pods: dict[Key, Pod] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def apply(self, pod: Pod) -> None:
        self.pods[key_of(pod)] = pod
        self.log.append(f"apply {pod.metadata.name}")

    def remove(self, key: Key) -> None:
        self.pods.pop(key, None)
        self.log.append(f"remove {key[1]}")

    def keys(self) -> Iterable[Key]:
        return self.pods.keys()


@dataclass
class Setup:
    server: FakeApiServer
    store: PodStore
    reflector: Reflector[Pod]
    waits: list[float]
    watched: list[bool]
    """Whether a watch stood, for each wait."""

    def in_step(self) -> bool:
        """Whether the store equals the server's state, object for object."""
        held = {key: (pod.metadata.uid, pod.metadata.resource_version) for key, pod in self.store.pods.items()}
        return held == {
            key: (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for key, pod in self.server.pods.items()
        }

    def watching(self) -> bool:
        return self.reflector.state.watch is not None

    def watched_from(self) -> list[int]:
        """The versions from which watches were asked for."""
        return [int(query["resourceVersion"]) for query in self.server.requests if "watch" in query]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # any condition will do
            await asyncio.sleep(0.001)


def limits_of(silent_after: float, **others: Any) -> Limits:
    """Limits by which a watch has fallen silent after so long, though it lasts for a second; an answer is as late."""
    watch_seconds = 1 if silent_after < 10 else 10
    late_seconds = silent_after - watch_seconds
    return Limits(watch_seconds=watch_seconds, late_seconds=late_seconds, answer_seconds=silent_after, **others)


@asynccontextmanager
async def running(
    server: FakeApiServer,
    *,
    silent_after: float = 30.0,
    short_watch_seconds: float = 0.0,
    handler: Handler | None = None,
    clock: Callable[[], float] = time.monotonic,
    resource: Resource[Any] = PODS,
) -> AsyncIterator[Setup]:
    """Run a reflector against the server, or against a handler in front of it."""
    waits: list[float] = []
    watched: list[bool] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        watched.append(reflector.state.watch is not None)
        await asyncio.sleep(min(seconds, 0.001))

    async with http_server(handler or server) as url, KubeClient(load_credentials(master=url)) as client:
        store = PodStore()
        reflector = Reflector(
            client,
            resource,
            store,
            limits=limits_of(silent_after, short_watch_seconds=short_watch_seconds, page_size=3),
            backoff=Backoff(uniform=lambda low, high: low),
            clock=clock,
            sleep=sleep,
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield Setup(server, store, reflector, waits, watched)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_lists_in_pages_and_follows_changes() -> None:
    async def test() -> None:
        server = FakeApiServer()
        for number in range(8):
            server.put(f"pod-{number}")
        async with running(server) as setup:
            await setup.reflector.wait_synced()
            assert setup.in_step()
            assert setup.reflector.state.synced
            assert [query.get("limit") for query in server.requests[:3]] == ["3", "3", "3"]
            await until(setup.watching)
            assert server.requests[3]["allowWatchBookmarks"] == "true"
            assert 3 <= int(server.requests[3]["timeoutSeconds"]) <= 10

            server.put("pod-new")
            server.put("pod-0")
            server.delete("pod-1")
            server.put("pod-2", recreate=True)
            await until(setup.in_step)
            state = setup.reflector.state
            assert state.events == {"ADDED": 2, "MODIFIED": 1, "DELETED": 2}
            assert state.last_resource_version == str(server.version)
            assert (state.lists, state.watches, state.relists, state.last_error) == (1, 1, 0, None)

    asyncio.run(test())


def test_an_empty_cluster_is_synced_too() -> None:
    async def test() -> None:
        async with running(FakeApiServer()) as setup:
            await setup.reflector.wait_synced()
            await until(setup.watching)
            assert setup.store.pods == {}

    asyncio.run(test())


@pytest.mark.parametrize("how", BREAKS)
def test_goes_on_after_a_watch_breaks(how: str) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("old")
        server.put("gone-meanwhile")
        async with running(server, silent_after=0.3 if how == "stall" else 30.0) as setup:
            await until(setup.watching)
            server.break_watches(how)
            server.put("new")
            server.delete("gone-meanwhile")
            await until(setup.in_step)
            assert setup.reflector.state.watches == 2
            must_list = how in ("expired", "internal error")
            assert setup.reflector.state.lists == (2 if must_list else 1)
            assert setup.reflector.state.relists == (1 if how == "expired" else 0)
            assert setup.reflector.state.synced
            await until(setup.watching)
            assert setup.reflector.state.last_error is None

    asyncio.run(test())


def test_every_list_that_an_expired_version_makes_necessary_counts() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            for number, how in enumerate(("expired", "expired", "internal error"), 1):
                await until(lambda: setup.watching() and setup.reflector.state.watches == number)  # noqa: B023
                server.break_watches(how)
            await until(lambda: setup.reflector.state.lists == 4)
            assert setup.reflector.state.relists == 2

    asyncio.run(test())


@pytest.mark.parametrize("how", ["garbage", "internal error", "throttled"])
def test_waits_before_it_asks_a_server_again_that_sends_errors(how: str) -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.break_watches(how)
            await until(lambda: setup.reflector.state.watches == 2)
            assert setup.waits == [0.8]
            assert setup.reflector.state.events == ({} if how == "garbage" else {"ERROR": 1})

    asyncio.run(test())


@pytest.mark.parametrize("how", ["close", "cut", "expired"])
def test_opens_a_healthy_watch_again_at_once(how: str) -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.break_watches(how)
            await until(lambda: setup.reflector.state.watches == 2)
            assert setup.waits == [0.0]

    asyncio.run(test())


def test_watches_that_end_as_soon_as_they_begin_are_not_opened_in_a_tight_loop() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, short_watch_seconds=3600.0) as setup:
            for number in range(1, 4):
                await until(lambda: setup.watching() and setup.reflector.state.watches == number)  # noqa: B023
                server.break_watches("close")
            await until(lambda: setup.reflector.state.watches == 4)
            assert setup.waits == [0.8, 1.6, 3.2]

    asyncio.run(test())


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal["reason"]))
def test_a_refused_watch_is_reported_and_tried_again(refusal: dict[str, Any]) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("old")
        server.watch_refusals = [refusal]
        reported: list[str | None] = []
        async with running(server) as setup:
            await until(lambda: bool(setup.waits))
            reported.append(setup.reflector.state.last_error)
            server.put("new")
            await until(lambda: setup.in_step() and setup.watching())
            assert setup.waits == [0.0 if refusal is EXPIRED else 0.8]
            assert setup.watched == [False]
            must_list = refusal in (EXPIRED, TOO_LARGE)
            assert setup.reflector.state.lists == (2 if must_list else 1)
            assert setup.reflector.state.relists == (1 if must_list else 0)
        assert reported[0] is None or refusal["message"] in reported[0]

    asyncio.run(test())


def test_an_api_server_that_was_restarted_is_listed_as_soon_as_it_says_that_it_forgot_the_past() -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.watch_refusals = [INTERNAL, INTERNAL, INTERNAL, EXPIRED]
        async with running(server) as setup:
            await until(setup.watching)
            assert setup.waits == [0.8, 1.6, 3.2, 0.0]

    asyncio.run(test())


def test_versions_that_expire_right_after_the_list_do_not_make_a_tight_loop() -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.watch_refusals = [EXPIRED] * 3
        async with running(server, short_watch_seconds=3600.0) as setup:
            await until(setup.watching)
            assert setup.waits == [0.8, 1.6, 3.2]
            assert setup.reflector.state.lists == 4

    asyncio.run(test())


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal["reason"]))
def test_a_refused_list_is_reported_and_tried_again(refusal: dict[str, Any]) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("pod")
        server.list_refusals = [refusal] * 3
        async with running(server) as setup:
            await until(lambda: len(setup.waits) == 1)
            assert not setup.reflector.state.synced
            assert refusal["message"] in (setup.reflector.state.last_error or "")
            await setup.reflector.wait_synced()
            assert setup.in_step()
            assert setup.waits == [0.8, 1.6, 3.2]

    asyncio.run(test())


@pytest.mark.parametrize(("retry_after", "seconds"), [("9", [9.0]), ("17", [10.0, 7.0]), ("3600", [10.0, 50.0])])
def test_waits_as_long_as_the_server_asks_for_within_limits(retry_after: str, seconds: list[float]) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.list_refusals = [THROTTLED]
        server.retry_after = retry_after
        async with running(server) as setup:
            await setup.reflector.wait_synced()
            assert setup.waits == seconds

    asyncio.run(test())


@pytest.mark.parametrize("when", [0, 1], ids=["in its first seconds", "later"])
def test_a_long_wait_that_the_server_has_asked_for_ends_early_when_another_watch_is_answered(when: int) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.list_refusals = [THROTTLED]
        server.retry_after = "3600"
        watches = ServerWatches()
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == when + 1:
                asyncio.get_running_loop().call_soon(watches.answers_again)
            await asyncio.sleep(3600 if len(waits) > 1 else 0.01)

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            reflector = Reflector(client, PODS, PodStore(), server=watches, sleep=sleep)
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(reflector.wait_synced(), 20)
            assert waits[: when + 1] == [10.0, 50.0][: when + 1]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


@pytest.mark.parametrize(("retry_after", "tries"), [(None, 2), ("5", 1)])
def test_a_wait_ends_when_another_watch_is_answered_unless_the_server_has_asked_for_it(
    retry_after: str | None, tries: int
) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.list_refusals = [INTERNAL] * 9
        server.retry_after = retry_after
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(3600)

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            watches = ServerWatches()
            task = asyncio.create_task(Reflector(client, PODS, PodStore(), server=watches, sleep=sleep).run())
            await until(lambda: len(waits) == 1)
            watches.answers_again()
            await until(lambda: len(waits) == tries)
            # Not a second time: two watches that fail in turns would drive each other.
            watches.answers_again()
            await asyncio.sleep(0.1)
            assert len(waits) == len(server.requests) == tries
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def test_a_list_whose_continue_token_expires_starts_again_and_leaves_nothing_behind() -> None:
    async def test() -> None:
        server = FakeApiServer()
        for number in range(7):
            server.put(f"pod-{number}")
        server.page_refusals = [EXPIRED]
        async with running(server) as setup:
            await until(lambda: len(setup.store.pods) == 3)
            server.delete("pod-0")
            await setup.reflector.wait_synced()
            await until(setup.in_step)
            assert ("default", "pod-0") not in setup.store.pods
            assert setup.reflector.state.relists == 1

    asyncio.run(test())


def test_a_bookmark_moves_the_version_from_which_a_watch_resumes() -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("pod")
        async with running(server) as setup:
            await until(setup.watching)
            server.bookmark()
            await until(lambda: setup.reflector.state.events["BOOKMARK"] == 1)
            server.compact()  # what was known at the list is forgotten, what the bookmark told is not
            server.break_watches("cut")
            server.put("new")
            await until(setup.in_step)
            assert setup.watched_from()[-1] == server.version - 1
            assert setup.reflector.state.lists == 1
            assert setup.store.log == ["apply pod", "apply new"]

    asyncio.run(test())


@pytest.mark.parametrize("refuses", [False, True], ids=["takes the watch", "refuses the watch"])
def test_a_restored_etcd_is_listed_anew(refuses: bool) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("lost")
        server.put("kept")
        async with running(server) as setup:
            await until(setup.watching)
            server.restore(["kept", "from the backup"])
            server.watch_refusals = [TOO_LARGE] if refuses else []
            server.break_watches("cut")
            await until(lambda: setup.in_step() and setup.watching())
            assert int(setup.reflector.state.last_resource_version) < 100
            assert setup.reflector.state.relists == 1
            assert setup.waits == ([0.0, 0.8] if refuses else [0.0, 0.0])

    asyncio.run(test())


def test_a_server_that_does_not_know_the_last_version_is_not_believed_though_it_takes_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("lost")
        async with running(server) as setup:
            await until(setup.watching)
            server.restore([])
            server.list_refusals = [INTERNAL, FORBIDDEN]
            server.break_watches("cut")
            await until(lambda: setup.in_step() and setup.watching())
            assert setup.waits == [0.0, 0.8, 1.6, 0.0]
            assert setup.watched == [False] * 4
            state = setup.reflector.state
            assert (state.lists, state.watches, state.relists) == (2, 3, 1)

    asyncio.run(test())
    (told,) = [message for message in caplog.messages if "restored" in message]
    assert re.search(r": the API server is at version \d+, before \d+: etcd has been restored; next list in ", told)


class HangingLists:
    """Answers no list, once it `hangs`, until `answers` is set; a handler in front of a server."""

    def __init__(self, server: FakeApiServer) -> None:
        self.hangs = False
        self.answers = asyncio.Event()
        self._server = server

    async def __call__(self, request: Request, response: Response) -> None:
        if self.hangs and "watch" not in request.query:
            await self.answers.wait()
        await self._server(request, response)


def test_a_watch_goes_on_while_the_server_does_not_say_at_which_version_it_is() -> None:
    async def test() -> None:
        server = FakeApiServer()
        lists = HangingLists(server)
        async with running(server, handler=lists) as setup:
            await until(setup.watching)
            listed_at = setup.reflector.state.current_at
            lists.hangs = True
            server.break_watches("cut")
            server.put("pod")
            await until(setup.in_step)
            # It may be a server whose etcd was restored.
            state = setup.reflector.state
            assert (setup.watching(), state.current_at, state.watches) == (False, listed_at, 2)
            lists.answers.set()
            await until(setup.watching)
            assert (state.lists, state.watches, state.last_error) == (1, 2, None)
            assert setup.waits == [0.0]
            assert state.current_at > listed_at

    asyncio.run(test())


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal["reason"]))
def test_a_watch_goes_on_while_the_server_refuses_to_say_at_which_version_it_is(
    refusal: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            state = setup.reflector.state
            listed_at = state.current_at
            server.list_refusals = [refusal] * 3
            server.break_watches("cut")
            server.put("pod")
            await until(lambda: setup.in_step() and setup.watching())
            assert (state.lists, state.watches, state.relists, state.last_error) == (1, 2, 0, None)
            assert setup.waits == [0.0, 0.8, 1.6, 3.2]
            # Until then it may be a server whose etcd was restored.
            assert setup.watched == [False] * 4
            assert state.current_at > listed_at

    asyncio.run(test())
    (told,) = [message for message in caplog.messages if "the watch goes on" in message]
    reason = f"{refusal['message']} ({refusal['code']} {refusal['reason']})"
    assert told == f"pods: {reason}; the watch goes on, next list in 0.8 s"


def test_events_are_applied_while_the_server_refuses_to_say_at_which_version_it_is() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.list_refusals = [THROTTLED] * 1000
            server.break_watches("cut")
            for number in range(3):
                tries = len(setup.waits)
                server.put(f"pod-{number}")
                await until(lambda: setup.in_step() and len(setup.waits) > tries)  # noqa: B023
            assert (setup.watching(), setup.reflector.state.watches, server.open_watches) == (False, 2, 1)

    asyncio.run(test())


@pytest.mark.parametrize(("retry_after", "seconds"), [("9", [9.0]), ("17", [10.0, 7.0])])
def test_the_version_is_asked_for_again_when_the_server_wants_that(retry_after: str, seconds: list[float]) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.retry_after = retry_after
        async with running(server) as setup:
            await until(setup.watching)
            server.list_refusals = [THROTTLED]
            server.break_watches("cut")
            await until(lambda: setup.watching() and setup.reflector.state.watches == 2)
            assert setup.waits == [0.0, *seconds]

    asyncio.run(test())


@pytest.mark.parametrize("how", ["cut", "no list"])
def test_a_watch_goes_on_while_nothing_sound_says_at_which_version_the_server_is(how: str) -> None:
    async def test() -> None:
        fails = False

        async def handler(request: Request, response: Response) -> None:
            if not fails or "watch" in request.query:
                await server(request, response)
            elif how == "cut":
                response.cut()
            else:
                await response.send_json(200, {})

        server = FakeApiServer()
        async with running(server, handler=handler) as setup:
            await until(setup.watching)
            fails = True
            server.break_watches("cut")
            await until(lambda: len(setup.waits) > 3)
            fails = False
            await until(setup.watching)
            assert (setup.reflector.state.lists, setup.reflector.state.watches) == (1, 2)

    asyncio.run(test())


@pytest.mark.parametrize(("how", "watches"), [("another watch is answered", 2), ("its own watch fails", 3)])
def test_the_wait_for_the_next_question_for_the_version_ends_early_if(how: str, watches: int) -> None:
    async def test() -> None:
        server = FakeApiServer()
        others = ServerWatches()
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(3600 if seconds else 0)

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            limits = Limits(short_watch_seconds=0.0)
            reflector = Reflector(client, PODS, PodStore(), limits=limits, server=others, sleep=sleep)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            server.list_refusals = [INTERNAL]
            server.break_watches("cut")
            await until(lambda: len(waits) == 2)
            if how == "its own watch fails":
                server.break_watches("cut")
            else:
                others.answers_again()
            await until(lambda: reflector.state.watch is not None)
            assert (reflector.state.lists, reflector.state.watches) == (1, watches)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def lists_asked_for(server: FakeApiServer) -> int:
    return len([query for query in server.requests if "watch" not in query])


def test_the_punctual_end_of_the_watch_cuts_no_wait_short_that_the_server_has_asked_for() -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.retry_after = "17"
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(3600 if seconds == 7.0 else 0)

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            limits = Limits(short_watch_seconds=0.0)
            reflector = Reflector(client, PODS, PodStore(), limits=limits, sleep=sleep)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            server.list_refusals = [THROTTLED]
            server.break_watches("cut")
            await until(lambda: len(waits) == 3)
            server.break_watches("close")
            await until(lambda: reflector.state.watches == 3 and server.open_watches == 1)
            await asyncio.sleep(0.1)
            assert waits == [0.0, 10.0, 7.0, 0.0]
            assert lists_asked_for(server) == 2
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def test_a_wait_that_the_server_has_asked_for_goes_on_though_the_watch_fails_meanwhile() -> None:
    async def test() -> None:
        now = 1000.0
        server = FakeApiServer()
        server.retry_after = "9"
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(3600 if seconds else 0)

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            limits = Limits(short_watch_seconds=0.0)
            reflector = Reflector(client, PODS, PodStore(), limits=limits, clock=lambda: now, sleep=sleep)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            server.list_refusals = [THROTTLED]
            server.break_watches("cut")
            await until(lambda: len(waits) == 2)
            now += 4.0
            server.break_watches("cut")
            await until(lambda: len(waits) == 4)
            assert waits == [0.0, 9.0, 0.0, 5.0]
            assert lists_asked_for(server) == 2
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


@pytest.mark.parametrize(("refusals", "answers"), [([], 1), ([INTERNAL], 2)])
def test_when_the_server_says_its_version_after_all_others_are_tried(
    refusals: list[dict[str, Any]], answers: int
) -> None:
    async def test() -> None:
        server = FakeApiServer()
        others = ServerWatches()
        tried: list[bool] = []
        others.add(WatchState(heard_at=0.0), lambda _: None, lambda: tried.append(True))
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            limits, backoff = Limits(short_watch_seconds=0.0), Backoff(initial_seconds=0.001)
            reflector = Reflector(client, PODS, PodStore(), limits=limits, server=others, backoff=backoff)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            server.list_refusals = [*refusals]
            server.break_watches("cut")
            await until(lambda: reflector.state.watch is not None and reflector.state.watches == 2)
            assert len(tried) == answers  # one for the watch, which could be opened again
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_server_is_asked_once_at_which_version_it_is_though_watches_come_and_end(is_restored: bool) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.put("pod")
        lists = HangingLists(server)
        async with running(server, handler=lists) as setup:
            await until(setup.watching)
            lists.hangs = True
            listed_at, state = setup.reflector.state.current_at, setup.reflector.state
            for number, how in enumerate(("cut", "close", "close"), 2):
                server.break_watches(how)
                await until(lambda: state.watches == number and server.open_watches == 1)  # noqa: B023
                assert (setup.watching(), state.current_at) == (False, listed_at)
            seconds = [int(query["timeoutSeconds"]) for query in server.requests if "watch" in query]
            assert [number == 1 for number in seconds] == [False, True, False, False]
            if is_restored:
                server.restore(["pod"])
            lists.answers.set()
            await until(setup.watching)
            assert len([query for query in server.requests if "watch" not in query]) == (3 if is_restored else 2)
            assert (state.lists, state.watches) == ((2, 5) if is_restored else (1, 4))

    asyncio.run(test())


def test_the_end_of_a_watch_in_doubt_counts_once_the_versions_are_compared() -> None:
    async def test() -> None:
        server = FakeApiServer()
        lists = HangingLists(server)
        async with running(server, handler=lists) as setup:
            await until(setup.watching)
            lists.hangs = True
            state = setup.reflector.state
            server.break_watches("cut")
            await until(lambda: state.watches == 2 and server.open_watches == 1)
            opened_at = state.opened_at
            server.break_watches("close")
            await until(lambda: state.watches == 3 and server.open_watches == 1)
            assert state.current_at < opened_at
            lists.answers.set()
            await until(setup.watching)
            assert opened_at < state.current_at < state.opened_at

    asyncio.run(test())


def test_a_server_that_is_silent_about_its_version_is_asked_again_with_more_patience_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    patience: list[float] = []
    latest_version = KubeClient.latest_version

    async def silent_thrice(client: KubeClient, resource: Resource[Any], *, silence_seconds: float) -> str:
        patience.append(silence_seconds)
        if len(patience) < 4:
            raise SilentError("no answer", silence_seconds)
        return await latest_version(client, resource)

    monkeypatch.setattr(KubeClient, "latest_version", silent_thrice)

    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=5.0) as setup:
            await until(setup.watching)
            server.break_watches("cut")
            await until(lambda: setup.watching() and len(patience) == 4)
            assert setup.reflector.state.watches == 2

    asyncio.run(test())
    assert patience == [5.0, 5.0, 10.0, 20.0]
    assert [message for message in caplog.messages if "no answer" in message] == [
        "pods: no answer; the watch goes on, next list in 0.0 s"
    ]


@pytest.mark.parametrize("how", ["the reflector ends", "the watch fails"])
def test_the_question_for_the_version_ends_with_what_it_was_asked_for(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = 0, 0

    async def hanging(*_: Any, **__: Any) -> str:
        nonlocal asked, ended
        asked += 1
        try:
            await asyncio.sleep(3600)
        finally:
            ended += 1
        return ""

    monkeypatch.setattr(KubeClient, "latest_version", hanging)

    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.break_watches("cut")
            await until(lambda: asked == 1)
            if how == "the watch fails":
                server.break_watches("cut")
                await until(lambda: (asked, ended) == (2, 1))
        await asyncio.sleep(0)
        assert asked == ended

    asyncio.run(test())


def test_versions_are_not_compared_where_nothing_has_failed() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            for number in range(1, 4):
                await until(lambda: setup.watching() and setup.reflector.state.watches == number)  # noqa: B023
                server.break_watches("close")
            assert [query for query in server.requests if "watch" not in query] == [{"limit": "3"}]

    asyncio.run(test())


def test_a_connection_that_falls_silent_is_as_current_as_its_last_event() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=0.3) as setup:
            await until(setup.watching)
            server.put("pod")
            await until(setup.in_step)
            last_event = time.monotonic()
            server.watch_refusals = [FORBIDDEN] * 1000  # and it does not come back
            server.break_watches("stall")
            await until(lambda: not setup.watching())
            assert setup.reflector.state.current_at <= last_event < time.monotonic() - 0.2

    asyncio.run(test())


def test_a_watch_that_is_open_and_brings_nothing_is_no_news() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=0.05) as setup:
            await until(setup.watching)
            listed_at = setup.reflector.state.current_at
            for number in (1, 2):
                await until(lambda: setup.watching() and setup.reflector.state.watches == number)  # noqa: B023
                assert setup.reflector.state.current_at == listed_at
                server.break_watches("stall")
            server.put("pod")
            await until(setup.in_step)
            await until(lambda: setup.reflector.state.current_at > listed_at)

    asyncio.run(test())


def test_the_first_watch_after_a_failure_is_a_short_one() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            for number, how in enumerate(("cut", "close", "close"), 1):
                await until(lambda: setup.watching() and setup.reflector.state.watches == number)  # noqa: B023
                server.break_watches(how)
            await until(lambda: setup.reflector.state.watches == 4)
            seconds = [int(query["timeoutSeconds"]) for query in server.requests if "watch" in query]
            assert [number == 1 for number in seconds[:3]] == [False, True, False]

    asyncio.run(test())


def test_the_punctual_end_of_a_watch_tells_that_nothing_has_happened() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            listed_at = setup.reflector.state.current_at
            server.break_watches("close")
            await until(lambda: setup.reflector.state.watches == 2)
            assert setup.reflector.state.current_at > listed_at

    asyncio.run(test())


def test_watches_that_break_as_soon_as_they_are_open_are_no_news() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, short_watch_seconds=3600.0) as setup:
            await until(setup.watching)
            listed_at = setup.reflector.state.current_at
            for how in ("close", "cut", "garbage", "throttled"):
                server.watch_refusals = [FORBIDDEN]
                server.break_watches(how)
                await until(lambda: not setup.watching())
                assert setup.reflector.state.current_at == listed_at
                await until(setup.watching)
            server.break_watches("throttled")
            await until(lambda: not setup.watching())
            assert setup.reflector.state.events["ERROR"] == 2

    asyncio.run(test())


def test_where_watches_are_not_ended_a_kind_of_which_nothing_happens_is_listed_now_and_then() -> None:
    async def test() -> None:
        server = FakeApiServer()  # it ends no watch
        async with running(server, silent_after=0.1) as setup:
            await until(lambda: setup.reflector.state.lists == 4)
            state = setup.reflector.state
            assert time.monotonic() - state.current_at < 5.0
            assert state.relists == 0
            server.put("pod")
            await until(setup.in_step)

    asyncio.run(test())


def test_where_watches_are_not_ended_one_that_brings_something_goes_on() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=1.5) as setup:
            await until(setup.watching)
            for number in range(25):
                server.put("pod") if number % 2 else server.bookmark()
                await asyncio.sleep(0.1)
            state = setup.reflector.state
            assert (state.watches, state.lists, state.last_error) == (1, 1, None)
            assert time.monotonic() - state.current_at < 1.0

    asyncio.run(test())


def test_a_list_that_falls_silent_is_asked_for_again_with_more_patience_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience: list[float] = []
    list_pages = KubeClient.list_pages

    def noting(client: KubeClient, *args: Any, silence_seconds: float, **others: Any) -> AsyncIterator[Any]:
        patience.append(silence_seconds)
        return list_pages(client, *args, silence_seconds=silence_seconds, **others)

    monkeypatch.setattr(KubeClient, "list_pages", noting)

    async def test() -> None:
        silent = 4

        async def handler(request: Request, response: Response) -> None:
            nonlocal silent
            if "watch" not in request.query and silent:
                silent -= 1
                await asyncio.sleep(3600)
            await server(request, response)

        server = FakeApiServer()
        async with running(server, silent_after=0.1, handler=handler) as setup:
            await setup.reflector.wait_synced()
            assert patience == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8])
            # To have waited in vain is taken off the wait that follows.
            for wait, seconds, waited in zip(setup.waits, (0.8, 1.6, 3.2, 6.4), patience, strict=False):
                assert wait <= seconds - waited

    asyncio.run(test())


def keep_silent(monkeypatch: pytest.MonkeyPatch, silent: Iterable[bool]) -> list[float]:
    """Let some watches have no answer, in turn; returns the seconds that each is given for it."""
    patience: list[float] = []
    turns = iter(silent)
    watch = KubeClient.watch

    def noting(client: KubeClient, *args: Any, answer_seconds: float, **others: Any) -> Any:
        patience.append(answer_seconds)
        if next(turns):
            raise SilentError("no answer", 5.0)
        return watch(client, *args, answer_seconds=answer_seconds, **others)

    monkeypatch.setattr(KubeClient, "watch", noting)
    return patience


def test_after_an_answer_patience_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = keep_silent(monkeypatch, [True, True, False, True, True, False])

    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=5.0) as setup:
            await until(setup.watching)
            server.break_watches("cut")
            await until(lambda: len(patience) == 6 and setup.watching())

    asyncio.run(test())
    assert patience == [5.0, 5.0, 10.0, 5.0, 5.0, 10.0]


def test_a_refusal_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = keep_silent(monkeypatch, [False, False, True, False])

    async def test() -> None:
        server = FakeApiServer()
        server.watch_refusals = [FORBIDDEN, FORBIDDEN]
        async with running(server, silent_after=5.0) as setup:
            await until(setup.watching)

    asyncio.run(test())
    assert patience == [5.0, 5.0, 5.0, 5.0]


def test_the_time_waited_in_vain_is_taken_off_the_wait_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    watch = KubeClient.watch

    def silent_once(client: KubeClient, *args: Any, **others: Any) -> Any:
        nonlocal now
        monkeypatch.setattr(KubeClient, "watch", watch)
        now += 0.5
        raise SilentError("no answer", 5.0)

    monkeypatch.setattr(KubeClient, "watch", silent_once)

    async def test() -> None:
        async with running(FakeApiServer(), clock=lambda: now) as setup:
            await until(setup.watching)
            assert setup.waits == pytest.approx([0.8 - 0.5])

    asyncio.run(test())


def test_the_latest_version_must_be_told_in_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float | None] = []
    latest_version = KubeClient.latest_version

    async def noting(client: KubeClient, *args: Any, silence_seconds: float | None = None) -> str:
        patience.append(silence_seconds)
        return await latest_version(client, *args)

    monkeypatch.setattr(KubeClient, "latest_version", noting)

    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=5.0) as setup:
            await until(setup.watching)
            server.break_watches("cut")
            await until(lambda: setup.watching() and setup.reflector.state.watches == 2)

    asyncio.run(test())
    assert patience == [5.0]


@pytest.mark.parametrize("answer", [{}, {"kind": "Status", "status": "Success"}, {"metadata": {}, "items": []}])
def test_an_answer_that_is_no_list_empties_nothing(answer: dict[str, Any]) -> None:
    async def test() -> None:
        lies = False

        async def handler(request: Request, response: Response) -> None:
            nonlocal lies
            if lies and "watch" not in request.query:
                lies = False
                await response.send_json(200, answer)
            else:
                await server(request, response)

        server = FakeApiServer()
        server.put("pod")
        async with running(server, handler=handler) as setup:
            await until(setup.watching)
            lies = True
            server.break_watches("internal error")
            await until(lambda: setup.reflector.state.lists == 3 and setup.watching())
            assert setup.store.log == ["apply pod", "apply pod"]

    asyncio.run(test())


def test_an_event_without_a_version_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.break_watches("no version")
            await until(lambda: setup.watching() and setup.reflector.state.watches == 2)
            assert setup.store.log == []
            assert setup.watched_from() == [100, 100]

    asyncio.run(test())
    assert "pods: an event of the watch has no resource version; next watch in 0.8 s" in caplog.messages


def test_an_event_that_cannot_be_decoded_is_passed_by_a_list_when_it_comes_again() -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server) as setup:
            await until(setup.watching)
            server.garble()
            server.put("next")
            await until(lambda: setup.in_step() and setup.watching())
            state = setup.reflector.state
            assert (state.lists, state.watches, state.relists) == (2, 3, 0)
            assert setup.waits == [0.8, 1.6]

    asyncio.run(test())


# As the API server writes them. It keeps up to 10,000 levels, also of fields that no type has.
DEEP_FIELDS = b'[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%b}]'


@pytest.mark.parametrize("levels", [3_000, 9_990])
@pytest.mark.parametrize(
    "resource",
    [
        WATCHED_PODS,
        pods_by_need(["default-scheduler"], keeps_json=True),
        replace(NODES_WITH_JSON, plural="pods"),  # the server has only pods
    ],
    ids=["watched pods", "pods by need", "nodes"],
)
def test_an_object_whose_managed_fields_are_deeply_nested_holds_up_no_other(
    resource: Resource[Any], levels: int
) -> None:
    fields = msgspec.Raw(DEEP_FIELDS % (b'{"f:x":' * levels + b"{}" + b"}" * levels))

    async def test() -> None:
        server = FakeApiServer()
        async with running(server, resource=resource) as setup:
            await until(setup.watching)
            server.put("deep", metadata={"managedFields": fields}, spec={"schedulerName": "default-scheduler"})
            server.put("next")
            await until(setup.in_step)
            assert setup.reflector.state.lists == 1
        async with running(server, resource=resource) as setup:
            await setup.reflector.wait_synced()
            assert setup.in_step()
            await until(setup.watching)
            server.delete("deep")
            await until(setup.in_step)
            state = setup.reflector.state
            assert (state.lists, state.watches, state.last_error) == (1, 1, None)

    asyncio.run(test())


@pytest.mark.parametrize("body", [b'{"code": 502, "message": "d\xe9lai"}', b'{"unknown": ' + b"[" * 100_000])
def test_a_gateway_whose_refusals_cannot_be_read_is_asked_again(body: bytes) -> None:
    async def test() -> None:
        refused: set[bool] = set()

        async def handler(request: Request, response: Response) -> None:
            is_watch = "watch" in request.query
            if is_watch in refused:
                await server(request, response)
                return
            refused.add(is_watch)
            await response.send_head(502, {"Content-Length": str(len(body))})
            await response.send_raw(body)

        server = FakeApiServer()
        server.put("pod")
        async with running(server, handler=handler) as setup:
            await until(lambda: setup.in_step() and setup.watching())
            assert setup.waits == [0.8, 1.6]

    asyncio.run(test())


def test_state_before_the_first_list_is_old_and_not_synced() -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.list_refusals = [UNAUTHORIZED] * 1000
        async with running(server) as setup:
            started = time.monotonic()
            await until(lambda: len(setup.waits) > 2)
            state = setup.reflector.state
            assert not state.synced
            assert state.current_at <= started
            assert "Unauthorized" in (state.last_error or "")

    asyncio.run(test())


def test_a_server_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with http_server(FakeApiServer()) as url:
            pass
        async with KubeClient(load_credentials(master=url)) as client:
            reflector = Reflector(client, PODS, PodStore(), backoff=Backoff(initial_seconds=0.001))
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.lists > 2)
            assert url in (reflector.state.last_error or "")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def test_a_long_list_lets_other_tasks_run() -> None:
    async def test() -> None:
        server = FakeApiServer()
        for number in range(3):
            server.put(f"pod-{number}")
        readings = itertools.count()
        turns: list[int] = []
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:

            class CountingStore(PodStore):
                def apply(self, pod: Pod) -> None:
                    super().apply(pod)
                    asyncio.get_running_loop().call_soon(lambda: turns.append(len(self.log)))

            # This clock moves on by a slice with every reading, so that each object fills a slice.
            reflector = Reflector(client, PODS, CountingStore(), clock=lambda: 0.002 * next(readings))
            task = asyncio.create_task(reflector.run())
            await reflector.wait_synced()
            assert turns == [1, 2, 3]  # each saw the store between two objects
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def test_other_tasks_wait_for_a_slice_of_a_list_to_end() -> None:
    async def test() -> None:
        server = FakeApiServer()
        for number in range(6):
            server.put(f"pod-{number}")
        turns: list[int] = []
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:

            class CountingStore(PodStore):
                def apply(self, pod: Pod) -> None:
                    super().apply(pod)
                    asyncio.get_running_loop().call_soon(lambda: turns.append(len(self.log)))

            # By this clock each object takes a second.
            store = CountingStore()
            limits = Limits(slice_seconds=2.0)
            reflector = Reflector(client, PODS, store, limits=limits, clock=lambda: float(len(store.log)))
            task = asyncio.create_task(reflector.run())
            await reflector.wait_synced()
            assert turns == [2, 2, 4, 4, 6, 6]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())


def test_a_store_that_raises_ends_the_reflector_and_its_watch() -> None:
    async def test() -> None:
        server = FakeApiServer()

        class BrokenStore(PodStore):
            def apply(self, pod: Pod) -> None:
                raise RuntimeError("a defect")

        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            reflector = Reflector(client, PODS, BrokenStore())
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            server.put("pod")
            with pytest.raises(RuntimeError, match="a defect"):
                await task
            assert reflector.state.watch is None

    asyncio.run(test())


def test_logs_one_line_for_each_change_of_state_and_none_for_events(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="extender_service")

    async def test() -> None:
        server = FakeApiServer()
        server.list_refusals = [FORBIDDEN] * 5
        async with running(server) as setup:
            await until(setup.watching)
            for number in range(20):
                server.put(f"pod-{number}")
            await until(setup.in_step)

    asyncio.run(test())
    refused, listed, watching = caplog.messages
    assert re.fullmatch(r"pods: .*pods is forbidden.*; next list in 0\.8 s", refused)
    assert re.fullmatch(r"pods: listed 0 at version \d+ in \d{1,2}\.\d s", listed)
    assert re.fullmatch(r"pods: watching again after \d{1,2}\.\d s", watching)


def test_logs_that_a_watch_failed_and_that_the_next_one_opened(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = FakeApiServer()
        server.watch_refusals = [FORBIDDEN]
        async with running(server) as setup:
            await until(lambda: bool(setup.waits))
            await until(setup.watching)

    asyncio.run(test())
    (failed,) = caplog.messages
    assert re.fullmatch(r"pods: .*pods is forbidden.*; next watch in 0\.8 s", failed)


def test_lists_and_watches_only_what_is_selected() -> None:
    async def test() -> None:
        server = FakeApiServer()
        for number in range(4):
            server.put(f"pod-{number}")
        async with http_server(server) as url, KubeClient(load_credentials(master=url)) as client:
            limits = Limits(page_size=3)
            reflector = Reflector(client, PODS, PodStore(), field_selector="spec.nodeName=a", limits=limits)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.state.watch is not None)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        first_page, _, watch = server.requests
        assert first_page["fieldSelector"] == watch["fieldSelector"] == "spec.nodeName=a"

    asyncio.run(test())


names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "delete", "recreate"]), names),
        st.tuples(st.just("break"), st.sampled_from(BREAKS)),
        st.tuples(st.sampled_from(["refuse list", "refuse page", "refuse watch"]), st.sampled_from(REFUSALS)),
        st.tuples(st.just("repeat events"), st.booleans()),
        st.tuples(st.sampled_from(["bookmark", "compact", "settle", "pause"]), st.none()),
    ),
    max_size=40,
)


# Not shrunk: a history that fails takes `until`'s whole patience each time.
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(steps)
@example([("settle", None), ("put", "a"), ("recreate", "b"), ("compact", None), ("put", "a")])
@example([("put", "a"), ("settle", None), ("break", "cut"), ("delete", "a"), ("compact", None), ("settle", None)])
def test_whatever_happens_the_store_ends_up_as_the_server(steps: list[tuple[str, Any]]) -> None:
    async def test() -> None:
        server = FakeApiServer()
        async with running(server, silent_after=0.1) as setup:
            actions: dict[str, Callable[[Any], None]] = {
                "put": server.put,
                "recreate": lambda name: server.put(name, recreate=True),
                "delete": server.delete,
                "break": server.break_watches,
                "refuse list": server.list_refusals.append,
                "refuse page": server.page_refusals.append,
                "refuse watch": server.watch_refusals.append,
                "bookmark": lambda _: server.bookmark(),
                "compact": lambda _: server.compact(),
                "repeat events": lambda on: setattr(server, "repeats_events", on),
            }
            for step, what in steps:
                if step == "settle":
                    await until(lambda: setup.in_step() and setup.watching())
                elif step == "pause":
                    await asyncio.sleep(0.002)
                else:
                    actions[step](what)
            await until(lambda: setup.in_step() and setup.watching() and setup.reflector.state.synced)

    asyncio.run(test())

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.writing import event_recorder
from extender_service.kube.writing.event_recorder import MAX_TRIES, EventRecorder, ObjectReference, Occurrence
from extender_service.seams import THIS_MACHINE
from tests.support.servers.fake_api_server import FORBIDDEN, INTERNAL, THROTTLED
from tests.support.servers.http_server import Request, Response, http_server

COLLECTION = "/apis/events.k8s.io/v1/namespaces/default/events"
NOT_FOUND = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such event"}
EXISTS = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "there is such an event"}

# 2026-01-02 03:04:05.006007 and 8 ns
NOW = 1767323045_006007008
SECOND = 10**9


def failed(name: str = "web", note: str = "no room", *, reason: str = "FailedScheduling") -> Occurrence:
    pod = ObjectReference("v1", "Pod", "default", name, f"uid-{name}")
    return Occurrence(pod, "Warning", reason, "Scheduling", note)


class Events:
    """The API server's part in creating and patching events, and a recorder that writes there.

    The next answers are those of `faults`: a status instead of the deed, "lost" for one whose answer gets lost, "cut"
    for a request that gets lost.
    """

    def __init__(self) -> None:
        self.now = NOW
        self.stored: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.faults: list[dict[str, Any] | str] = []
        self.retry_after: dict[str, str] = {}
        self.hold: asyncio.Event | None = None
        self.recorder: EventRecorder

    async def __call__(self, request: Request, response: Response) -> None:
        assert request.path.startswith(COLLECTION)
        body = json.loads(request.body)
        name = request.path.removeprefix(f"{COLLECTION}").removeprefix("/")
        self.requests.append((request.method, name, body))
        if self.hold is not None:
            await self.hold.wait()
        fault = self.faults.pop(0) if self.faults else ""
        if isinstance(fault, dict):
            await response.send_json(fault["code"], fault, self.retry_after)
            return
        if fault == "cut":
            response.cut()
            return
        status, answer = self.create(body) if request.method == "POST" else self.patch(name, body)
        if fault == "lost":
            response.cut()
        else:
            await response.send_json(status, answer)

    def create(self, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = event["metadata"]["name"]
        if name in self.stored:
            return 409, EXISTS
        self.stored[name] = event
        return 201, event

    def patch(self, name: str, patch: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if name not in self.stored:
            return 404, NOT_FOUND
        self.stored[name] |= patch
        return 200, self.stored[name]

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.requests]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many were written, failed, and were dropped."""
        counts = self.recorder.counts
        return counts["written"], counts["failed"], counts["dropped"]

    @property
    def series(self) -> list[int | None]:
        """The counts that are stored."""
        return [event.get("series", {}).get("count") for event in self.stored.values()]

    async def record(self, *occurrences: Occurrence) -> None:
        """Record these and wait until what they lead to is written."""
        for occurrence in occurrences:
            self.recorder.record(occurrence)
        await self.written()

    async def written(self) -> None:
        async with asyncio.timeout(20):
            await self.recorder._queue.join()


@asynccontextmanager
async def recording(events: Events, limit: TokenBucket | None = None) -> AsyncIterator[None]:
    """The recorder runs until the end of the block; it tries again at once."""
    async with http_server(events) as url, KubeClient(load_credentials(master=url), limit=limit) as client:
        events.recorder = EventRecorder(
            client,
            "extender-service",
            machine=replace(THIS_MACHINE, wall_clock_ns=lambda: events.now),
            backoff=lambda: Backoff(uniform=lambda _low, _high: 0.0),
        )
        running = asyncio.create_task(events.recorder.run())
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def events() -> Events:
    return Events()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


def test_an_event_has_what_the_api_asks_for(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed())

    asyncio.run(main())
    assert events.requests == [
        (
            "POST",
            "",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"namespace": "default", "name": f"web.{NOW:x}"},
                "eventTime": "2026-01-02T03:04:05.006007Z",
                "reportingController": "extender-service",
                "reportingInstance": f"extender-service-{socket.gethostname()}",
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "web",
                    "uid": "uid-web",
                },
                "type": "Warning",
                "reason": "FailedScheduling",
                "action": "Scheduling",
                "note": "no room",
            },
        )
    ]
    assert events.counts == (1, 0, 0)


def test_an_occurrence_may_name_its_controller_and_is_an_event_of_its_own_then(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed(), msgspec.structs.replace(failed(), controller="packing"))

    asyncio.run(main())
    named = [(body["reportingController"], body["reportingInstance"]) for _, _, body in events.requests]
    host = socket.gethostname()
    assert named == [("extender-service", f"extender-service-{host}"), ("packing", f"packing-{host}")]


def test_what_happens_again_makes_a_series_whose_count_is_not_written_each_time(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            events.now += SECOND
            await events.record(failed(note="no room at all"))
            for _ in range(10):
                events.now += SECOND
                await events.record(failed())

    asyncio.run(main())
    series = {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.006007Z"}
    assert events.requests[1:] == [("PATCH", f"web.{NOW:x}", {"series": series})]
    assert events.stored[f"web.{NOW:x}"]["note"] == "no room"


def test_what_happens_again_before_it_is_written_is_written_once(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed(), failed(), failed())

    asyncio.run(main())
    assert (events.methods, events.series) == (["POST"], [3])


def test_many_events_are_written_at_once_but_the_writes_of_one_do_not_overtake_each_other(events: Events) -> None:
    async def main() -> None:
        events.hold = asyncio.Event()
        async with recording(events):
            for name in ("web", "db", "cache"):
                events.recorder.record(failed(name))
            await until(lambda: len(events.requests) == 3)
            for _ in range(2):
                events.recorder.record(failed())
            await asyncio.sleep(0.05)
            assert events.methods == ["POST"] * 3
            events.hold.set()
            await events.written()

    asyncio.run(main())
    assert (events.methods, events.counts) == (["POST", "POST", "POST", "PATCH"], (4, 0, 0))
    assert events.stored[f"web.{NOW:x}"]["series"]["count"] == 3


def test_what_happens_again_while_it_is_written_is_dropped_and_counted_if_there_is_no_room(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender_service.kube.writing.event_recorder.MAX_QUEUED", 1)
    monkeypatch.setattr("extender_service.kube.writing.event_recorder._WRITERS", 1)

    async def main() -> None:
        events.hold = asyncio.Event()
        async with recording(events):
            events.recorder.record(failed())
            await until(lambda: len(events.requests) == 1)
            events.recorder.record(failed())
            events.recorder.record(failed("db"))
            events.hold.set()
            await events.written()
            assert (events.series, events.counts) == ([None, None], (2, 0, 1))
            events.recorder._finish()  # too early to end it
            await events.recorder.drain(20)
            assert events.series == [2, None]

    asyncio.run(main())


@pytest.mark.parametrize("other", [failed("db"), failed(reason="Preempted")])
def test_what_differs_is_another_event(events: Events, other: Occurrence) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            events.now += 1
            await events.record(other)

    asyncio.run(main())
    assert events.series == [None, None]


def test_a_series_that_goes_on_is_kept_from_expiring(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_service.kube.writing.event_recorder.REFRESH_SECONDS", 0.001)

    async def main() -> None:
        async with recording(events):
            for _ in range(2):
                events.recorder.record(failed())
            await until(lambda: len(events.requests) > 3)

    asyncio.run(main())
    assert events.methods[:4] == ["POST", "PATCH", "PATCH", "PATCH"]


def test_a_series_that_ends_is_written_whole_and_the_next_is_another(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender_service.kube.writing.event_recorder.FINISH_SECONDS", 0.001)

    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            await events.record(failed())
            await events.record(failed(), failed())
            assert events.series == [2]
            events.now += SECOND
            await until(lambda: events.series == [4])
            await events.record(failed())
            assert events.series == [4, None]

    asyncio.run(main())


def test_what_happened_once_and_not_again_for_long_is_forgotten(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            events.now += 359 * SECOND
            events.recorder._finish()
            await events.record(failed())
            assert events.series == [2]
            events.now += 361 * SECOND
            events.recorder._finish()
            await events.record(failed())

    asyncio.run(main())
    assert events.series == [2, None]


def test_the_oldest_of_too_many_events_is_forgotten_once_its_series_is_written(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_recorder, "MAX_KNOWN", 3)

    async def main() -> None:
        async with recording(events):
            for _ in range(3):
                await events.record(failed("a"))
            assert events.series == [2]
            await events.record(*(failed(name) for name in "bcd"))
            assert sorted(events.series, key=str) == [3, None, None, None]
            events.now += SECOND
            await events.record(failed("a"), failed("d"))

    asyncio.run(main())
    assert [(method, name[:1] or body["metadata"]["name"][:1]) for method, name, body in events.requests[-2:]] in (
        [("POST", "a"), ("PATCH", "d")],
        [("PATCH", "d"), ("POST", "a")],
    )


def test_a_series_that_is_forgotten_unwritten_is_counted(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "MAX_KNOWN", 3)
    monkeypatch.setattr(event_recorder, "MAX_QUEUED", 1)
    monkeypatch.setattr(event_recorder, "_WRITERS", 1)

    async def main() -> None:
        async with recording(events):
            await events.record(failed("a"))
            first = events.hold = asyncio.Event()
            events.recorder.record(failed("b"))
            await until(lambda: len(events.requests) == 2)
            events.recorder.record(failed("c"))
            events.recorder.record(failed("a"))  # there is no room for its series
            second = events.hold = asyncio.Event()
            first.set()
            await until(lambda: len(events.requests) == 3)
            assert events.counts == (2, 0, 0)
            events.recorder.record(failed("d"))
            assert events.counts == (2, 0, 1)
            second.set()
            await events.written()
            assert (events.series, events.counts) == ([None] * 4, (4, 0, 1))

    asyncio.run(main())


def test_an_event_that_was_deleted_is_made_anew(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            events.stored.clear()
            await events.record(failed())

    asyncio.run(main())
    assert events.methods == ["POST", "PATCH", "POST"]
    assert events.series == [2]


def test_what_was_created_without_our_knowing_is_there(events: Events) -> None:
    events.faults = ["lost"]

    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            await events.record(failed())

    asyncio.run(main())
    assert events.methods == ["POST", "POST", "PATCH"]
    assert (events.series, events.counts) == ([2], (2, 0, 0))


def test_a_series_that_began_meanwhile_is_added_to_it(events: Events) -> None:
    events.faults = ["lost"]

    async def main() -> None:
        events.hold = asyncio.Event()
        async with recording(events):
            events.recorder.record(failed())
            await until(lambda: bool(events.requests))
            events.recorder.record(failed())
            events.hold.set()
            await events.written()

    asyncio.run(main())
    assert events.methods[:3] == ["POST", "POST", "PATCH"]
    assert events.series == [2]


@pytest.mark.parametrize("refusal", [FORBIDDEN, INTERNAL])
def test_what_the_api_server_refuses_is_given_up(
    events: Events, refusal: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    events.faults = [refusal]

    async def main() -> None:
        async with recording(events):
            await events.record(failed())
            await events.record(failed("db"))

    asyncio.run(main())
    assert events.methods == ["POST", "POST"]
    assert events.counts == (1, 1, 0)
    [record] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert record.getMessage() == "an event could not be written"
    assert refusal["message"] in vars(record)["error"]


def test_what_the_api_server_asks_us_to_repeat_is_repeated(events: Events) -> None:
    events.faults = [THROTTLED, THROTTLED]
    events.retry_after = {"Retry-After": "0"}

    async def main() -> None:
        async with recording(events):
            await events.record(failed())

    asyncio.run(main())
    assert (events.methods, events.counts) == (["POST"] * 3, (1, 0, 0))


@pytest.mark.parametrize(("cuts", "counts"), [(MAX_TRIES - 1, (1, 0, 0)), (MAX_TRIES, (0, 1, 0))])
def test_an_api_server_that_cannot_be_reached_is_tried_for_a_while(
    events: Events, cuts: int, counts: tuple[int, int, int]
) -> None:
    events.faults = ["cut"] * cuts

    async def main() -> None:
        async with recording(events):
            await events.record(failed())

    asyncio.run(main())
    assert (len(events.requests), events.counts) == (MAX_TRIES, counts)


def test_more_than_can_be_written_is_dropped_and_counted(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_service.kube.writing.event_recorder.MAX_QUEUED", 10)

    async def main() -> None:
        async with recording(events):
            for number in range(15):
                events.recorder.record(failed(f"pod-{number}"))
            await events.written()
            assert (len(events.stored), events.counts) == (10, (10, 0, 5))
            # What was dropped is not taken for written.
            await events.record(failed("pod-14"))
            assert (len(events.stored), events.counts) == (11, (11, 0, 5))

    asyncio.run(main())


def test_writes_keep_to_the_limit_of_their_client(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "extender_service.kube.connection.client")
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> None:
        async with recording(events, TokenBucket(10, 2, clock=lambda: 0.0, sleep=sleep)):
            await events.record(*(failed(f"pod-{number}") for number in range(4)))

    asyncio.run(main())
    assert waits == [0.1, 0.2]
    assert len(events.stored) == 4
    assert sum("client-side throttling" in message for message in caplog.messages) == 2


def test_before_it_stops_it_writes_what_there_is(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed(), failed())
            for occurrence in (failed(), failed("db")):
                events.recorder.record(occurrence)
            await events.recorder.drain(20)

    asyncio.run(main())
    assert events.series == [3, None]


def test_it_does_not_wait_for_ever_to_stop(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        events.hold = asyncio.Event()
        async with recording(events):
            events.recorder.record(failed())
            events.recorder.record(failed("db"))
            await until(lambda: bool(events.requests))
            await events.recorder.drain(0.01)

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == ["stopped before all events were written"]


def test_a_defect_costs_one_event_and_no_more(
    events: Events, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with recording(events):
            with monkeypatch.context() as patched:
                patched.setattr(KubeClient, "create_unread", None)
                await events.record(failed())
            await events.record(failed("db"))

    asyncio.run(main())
    assert (len(events.stored), events.counts) == (1, (1, 1, 0))
    assert [record.getMessage() for record in caplog.records] == ["writing an event failed"]


@pytest.mark.parametrize(
    ("note", "stored"),
    [("x" * 1024, "x" * 1024), ("x" * 1025, "x" * 1020 + " ..."), ("ä" * 1024, "ä" * 510 + " ...")],
)
def test_a_note_is_no_longer_than_the_api_takes(events: Events, note: str, stored: str) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed(note=note))

    asyncio.run(main())
    assert events.stored[f"web.{NOW:x}"]["note"] == stored


def test_no_more_of_a_note_is_kept_than_is_written_and_the_event_stays_the_same(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed(note="x" * 1_000_000), failed(note="y" * 1_000_000))

    asyncio.run(main())
    assert [len(event.first.note) for event in events.recorder._known.values()] == [1024]
    assert events.series == [2]


def test_the_name_of_an_event_of_a_long_name_is_a_name(events: Events) -> None:
    async def main() -> None:
        async with recording(events):
            await events.record(failed("a" * 235 + "." + "b" * 17))

    asyncio.run(main())
    assert list(events.stored) == ["a" * 235 + f".{NOW:x}"]

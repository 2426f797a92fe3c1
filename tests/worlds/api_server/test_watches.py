"""Watches of the model: bookmarks, ends, windows that end, lag and restarts."""

import json
from random import Random
from typing import Any

import pytest

from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.messages import Delayed, Request, Response, Watch
from tests.worlds.api_server.server import ApiServer

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class World:
    """One Etcd, with as many API servers as a test makes."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.etcd = Etcd(lambda: self.now)
        self.server = self.start_server()

    def start_server(self, minor: int = 31) -> ApiServer:
        return ApiServer(lambda: self.now, Random(1), etcd=self.etcd, minor=minor)

    def ask(self, method: str, path: str, body: Object | None = None, server: ApiServer | None = None) -> Any:
        return self.answer(method, path, body, server)[1]

    def answer(
        self, method: str, path: str, body: Object | None = None, server: ApiServer | None = None
    ) -> tuple[int, Any]:
        encoded = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        parameters = dict(part.split("=", 1) for part in query.split("&")) if query else {}
        headers = {"content-type": "application/merge-patch+json"}
        found = (server or self.server).handle(Request(method, path, parameters, headers, encoded))
        assert isinstance(found, Response)
        return found.status, found.json()

    def create_pod(self, name: str) -> Object:
        spec = {"containers": [{"name": "main", "image": "i"}]}
        found: Object = self.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        return found

    def watch(self, server: ApiServer | None = None, **query: str) -> Watch:
        found = (server or self.server).handle(Request("GET", PODS, {"watch": "1", **query}))
        assert isinstance(found, Watch)
        return found

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.server.step()


@pytest.fixture
def world() -> World:
    return World()


def events(watch: Watch) -> list[Object]:
    return [json.loads(line) for line in watch.take().splitlines()]


def kinds_and_names(watch: Watch) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events(watch)]


def test_a_watch_brings_the_changes_after_a_version_as_they_are_made(world: World) -> None:
    version = world.create_pod("a")["metadata"]["resourceVersion"]
    world.create_pod("b")
    watch = world.watch(resourceVersion=version)
    world.ask("DELETE", f"{PODS}/a")
    assert kinds_and_names(watch) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_events_go_to_the_callback_at_once(world: World) -> None:
    watch = world.watch(resourceVersion="0")
    lines: list[bytes] = []
    watch.on_line = lines.append
    world.create_pod("a")
    assert json.loads(lines[0])["object"]["metadata"]["name"] == "a"


def test_a_watch_ends_on_time_and_has_a_bookmark_before(world: World) -> None:
    world.create_pod("a")
    watch = world.watch(resourceVersion=str(world.etcd.revision), allowWatchBookmarks="true", timeoutSeconds="10")
    world.wait(8.0)
    assert [event["type"] for event in events(watch)] == ["BOOKMARK"]
    assert not watch.is_ended
    world.wait(2.0)
    assert watch.is_ended


def test_a_long_watch_has_a_bookmark_each_minute(world: World) -> None:
    world.create_pod("a")
    watch = world.watch(resourceVersion=str(world.etcd.revision), allowWatchBookmarks="true", timeoutSeconds="600")
    assert world.server.due_at() == world.now + 60.0
    for _ in range(3):
        world.wait(60.0)
    versions = [event["object"]["metadata"]["resourceVersion"] for event in events(watch)]
    assert versions == [str(world.etcd.revision)] * 3


def test_no_bookmark_comes_before_a_change_of_the_kind_and_the_next_one_is_a_minute_later(world: World) -> None:
    watch = world.watch(resourceVersion=str(world.etcd.revision), allowWatchBookmarks="true", timeoutSeconds="600")
    world.wait(60.0)
    assert watch.take() == b""
    assert world.server.due_at() == world.now + 60.0


def test_a_watch_that_was_closed_gets_nothing_more(world: World) -> None:
    watch = world.watch(resourceVersion="0")
    watch.close()
    world.create_pod("a")
    assert watch.take() == b""


def test_a_version_before_the_window_is_too_old(world: World) -> None:
    version = world.create_pod("first")["metadata"]["resourceVersion"]
    for number in range(150):
        world.create_pod(f"p{number}")
    world.wait(80.0)
    watch = world.watch(resourceVersion=version)
    (event,) = events(watch)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert "too old resource version" in event["object"]["message"]
    assert watch.is_ended


def test_the_window_holds_a_hundred_changes_however_old_they_are(world: World) -> None:
    version = world.create_pod("first")["metadata"]["resourceVersion"]
    for number in range(100):
        world.create_pod(f"p{number}")
    world.wait(3600.0)
    assert len(events(world.watch(resourceVersion=version))) == 100


def test_a_server_that_lags_shows_changes_later_and_an_older_list(world: World) -> None:
    world.create_pod("a")
    late = world.start_server()
    late.watches.lag_seconds = 5.0
    watch = world.watch(late, resourceVersion=str(world.etcd.revision))
    version = world.create_pod("b")["metadata"]["resourceVersion"]
    assert watch.take() == b""
    old = world.ask("GET", f"{PODS}?resourceVersion=0", server=late)
    assert [item["metadata"]["name"] for item in old["items"]] == ["a"]
    new = world.ask("GET", PODS, server=late)
    assert [item["metadata"]["name"] for item in new["items"]] == ["a", "b"]
    assert world.answer("GET", f"{PODS}/b?resourceVersion=0", server=late)[0] == 404
    assert late.due_at() <= world.now + 5.0
    world.now += 5.0
    late.step()
    assert kinds_and_names(watch) == [("ADDED", "b")]
    assert world.answer("GET", f"{PODS}/b?resourceVersion={version}", server=late)[0] == 200


def test_a_read_at_a_version_that_is_to_come_waits_for_it(world: World) -> None:
    late = world.start_server()
    late.watches.lag_seconds = 1.0
    version = world.create_pod("a")["metadata"]["resourceVersion"]
    answer = late.handle(Request("GET", PODS, {"resourceVersion": version}))
    assert isinstance(answer, Delayed)
    assert answer.seconds == pytest.approx(1.0)
    world.now += answer.seconds
    found = answer.proceed()
    assert isinstance(found, Response)
    assert [item["metadata"]["name"] for item in found.json()["items"]] == ["a"]


def test_a_read_at_a_version_that_does_not_come_fails_after_three_seconds(world: World) -> None:
    answer = world.server.handle(Request("GET", PODS, {"resourceVersion": "999999999"}))
    assert isinstance(answer, Delayed)
    assert answer.seconds == pytest.approx(3.0)
    world.now += answer.seconds
    found = answer.proceed()
    assert isinstance(found, Response)
    assert found.status == 504
    assert found.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert found.headers["retry-after"] == "1"


def test_a_restore_ends_watches_and_brings_back_objects_and_versions(world: World) -> None:
    world.create_pod("a")
    backup, version = world.etcd.save(), world.etcd.revision
    world.ask("DELETE", f"{PODS}/a")
    world.create_pod("b")
    watch = world.watch(resourceVersion=str(world.etcd.revision))
    world.etcd.restore(backup)
    assert watch.is_ended
    found = world.ask("GET", PODS)
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
    assert found["metadata"]["resourceVersion"] == str(version)


def test_after_a_restore_a_watch_from_a_later_version_is_silent_until_it_is_reached(world: World) -> None:
    backup = world.etcd.save()
    world.create_pod("a")
    world.create_pod("b")
    version = str(world.etcd.revision)
    world.etcd.restore(backup)
    watch = world.watch(resourceVersion=version)
    world.create_pod("c")
    world.create_pod("d")
    assert watch.take() == b""
    world.create_pod("e")
    assert kinds_and_names(watch) == [("ADDED", "e")]


def test_a_watch_from_a_version_that_is_to_come_has_no_bookmark_until_it_is_reached(world: World) -> None:
    world.create_pod("a")
    version = str(world.etcd.revision + 1)
    watch = world.watch(resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="600")
    world.wait(60.0)
    assert watch.take() == b""
    world.create_pod("b")
    world.wait(60.0)
    (event,) = events(watch)
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", version)


def test_a_watch_with_initial_events_of_a_version_that_does_not_come_brings_an_error(world: World) -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "999999999"}
    answer = world.start_server(minor=37).handle(Request("GET", PODS, {"watch": "1", **query}))
    assert isinstance(answer, Delayed)
    assert answer.seconds == pytest.approx(3.0)
    world.now += answer.seconds
    watch = answer.proceed()
    assert isinstance(watch, Watch)
    (event,) = events(watch)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
    assert watch.is_ended


def test_initial_events_end_with_a_bookmark_where_the_release_has_them(world: World) -> None:
    world.create_pod("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    found = events(world.watch(world.start_server(minor=37), **query))
    assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    refused = world.server.handle(Request("GET", PODS, {"watch": "1", **query}))
    assert isinstance(refused, Response)
    assert refused.status == 422

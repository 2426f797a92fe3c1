"""Clients, views and reconcilers of actors: what they do when the API server is slow, refuses, or forgets."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.actors.routines import start
from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.actors.view import View
from tests.worlds.api_server.fairness import Fairness

PODS = "/api/v1/namespaces/default/pods"
Object = dict[str, Any]


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


def create_pod(cluster: SmallCluster, name: str) -> None:
    cluster.ask("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})


def outcome_of(cluster: SmallCluster, client: ActorClient, method: str, path: str, body: Object | None = None) -> Any:
    outcomes: list[Any] = []

    async def ask() -> None:
        try:
            outcomes.append(await client.ask(method, path, body))
        except RequestError as error:
            outcomes.append((error.status, error.reason))

    start(ask())
    assert outcomes == []  # requests take time
    cluster.run(60.0)
    return outcomes[0]


def test_a_request_is_answered_after_a_while(cluster: SmallCluster) -> None:
    create_pod(cluster, "a")
    assert outcome_of(cluster, cluster.client("person"), "GET", f"{PODS}/a")["metadata"]["name"] == "a"


def test_a_refusal_names_status_and_reason(cluster: SmallCluster) -> None:
    assert outcome_of(cluster, cluster.client("person"), "DELETE", f"{PODS}/a") == (404, "NotFound")


def test_what_an_overloaded_server_refuses_is_tried_again(cluster: SmallCluster) -> None:
    create_pod(cluster, "a")
    cluster.model.fairness = Fairness(seats=1, seat_seconds=3.5, queue_length=0)
    cluster.model.fairness.take_seat(cluster.wall())
    assert outcome_of(cluster, cluster.client("person"), "GET", f"{PODS}/a")["metadata"]["name"] == "a"


def test_without_an_answer_a_request_fails_and_is_done_all_the_same(cluster: SmallCluster) -> None:
    cluster.world.timeline.call_later(0.0, lambda: setattr(cluster.server.loop, "stops", 1))
    cluster.world.timeline.call_later(20.0, lambda: setattr(cluster.server.loop, "stops", 0))
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    assert outcome_of(cluster, cluster.client("person"), "POST", PODS, body) == (0, "no answer in time")
    assert cluster.names("pods") == ["a"]


def test_an_actor_that_is_stopped_does_nothing_more(cluster: SmallCluster) -> None:
    client, done = cluster.client("person"), []

    async def ask() -> None:
        await client.ask("GET", PODS)
        done.append("answered")

    start(ask())
    client.stop()
    cluster.run(60.0)
    assert done == []


def view(cluster: SmallCluster, lag_seconds: float) -> tuple[View, list[tuple[float, str]]]:
    seen: list[tuple[float, str]] = []
    pods = View(cluster.client("actor"), "/api/v1/pods", lag_seconds=lag_seconds)
    pods.on_change.append(lambda key, before, after: seen.append((cluster.world.timeline.now, key)))
    pods.start()
    cluster.run(1.0)
    return pods, seen


def test_a_view_is_behind(cluster: SmallCluster) -> None:
    pods, seen = view(cluster, 2.0)
    for name in "abc":
        create_pod(cluster, name)
    cluster.run(0.9)
    assert pods.objects == {}
    cluster.run(5.0)
    assert [key for _, key in seen] == ["default/a", "default/b", "default/c"]
    assert seen[0][0] > 2.0


def forget_all(cluster: SmallCluster) -> None:
    cluster.model.watches.restart()


def end_watches(cluster: SmallCluster) -> None:
    cluster.run(700.0)


@pytest.mark.parametrize("trouble", [forget_all, end_watches])
def test_a_view_goes_on_after_its_watch_ended(cluster: SmallCluster, trouble: Callable[[SmallCluster], None]) -> None:
    pods, _ = view(cluster, 0.01)
    create_pod(cluster, "a")
    cluster.run(1.0)
    trouble(cluster)
    cluster.ask("DELETE", f"{PODS}/a")
    create_pod(cluster, "b")
    cluster.run(10.0)
    assert [*pods.objects] == ["default/b"]


def test_a_key_is_reconciled_once_at_a_time_and_again_after_a_failure(cluster: SmallCluster) -> None:
    client, calls = cluster.client("actor"), []

    async def reconcile(key: str) -> None:
        calls.append(key)
        await client.sleep(1.0)
        if len(calls) == 1:
            raise RequestError(409, "Conflict")

    reconciler = Reconciler(client, reconcile)
    for _ in range(3):
        reconciler.add("a")
    cluster.run(0.5)
    assert calls == ["a"]
    cluster.run(10.0)
    assert calls == ["a", "a"]


def test_a_key_that_has_failed_a_thousand_times_is_tried_again(cluster: SmallCluster) -> None:
    tries: list[str] = []

    async def reconcile(key: str) -> None:
        tries.append(key)
        if len(tries) <= 1100:
            raise RequestError(403, "Forbidden")

    reconciler = Reconciler(cluster.client("controller"), reconcile)
    for number in range(1100):
        cluster.world.timeline.call_at(0.02 * number, lambda: reconciler.add("a"))  # an event about it
    cluster.run(1100 * 30.0)
    assert len(tries) > 1100


def test_nothing_is_reconciled_before_all_views_have_listed(cluster: SmallCluster) -> None:
    client, calls = cluster.client("actor"), []

    async def reconcile(key: str) -> None:
        calls.append(key)

    first, second = View(client, "/api/v1/pods"), View(client, "/api/v1/nodes")
    Reconciler(client, reconcile).add("a")
    first.start()
    cluster.run(10.0)
    assert calls == []
    second.start()
    cluster.run(10.0)
    assert calls == ["a"]


def test_a_server_that_is_gone_refuses_at_once(cluster: SmallCluster) -> None:
    cluster.server.loop.kill()
    client, outcomes = cluster.client("person"), []

    async def ask() -> None:
        with pytest.raises(RequestError, match="connection refused"):
            await client.ask("GET", PODS)
        outcomes.append(cluster.world.timeline.now)

    start(ask())
    cluster.run(60.0)
    assert outcomes[0] < 1.0

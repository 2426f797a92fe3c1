"""What a client sees of API servers that stop, hang, lag, limit, and forget."""

import asyncio
from itertools import pairwise

import pytest

from tests.worlds.faults.plan import Fault
from tests.worlds.faults.trial import Heard, Trial

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def node(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


def polled(trial: Trial, path: str = f"{NODES}?resourceVersion=0", every: float = 1.0, count: int = 20) -> list[Heard]:
    """The answers to requests, one a second and one after the other."""
    heard: list[Heard] = []

    async def ask() -> None:
        for _ in range(count):
            heard.append(await trial.ask("GET", path, seconds=2.5))
            await asyncio.sleep(every)

    trial.run(ask)
    return heard


def test_a_server_that_is_stopped_refuses_connections_until_it_is_back() -> None:
    heard = polled(Trial(Fault(3.5, "stop", "api-server", seconds=5.0)))
    assert [each.text for each in heard if not each.status] == ["ConnectionRefusedError"] * 5
    assert [each.status for each in heard[-10:]] == [200] * 10


def test_a_server_that_hangs_lets_callers_wait() -> None:
    heard = polled(Trial(Fault(3.5, "hang", "api-server", seconds=5.0)))
    assert [each.text for each in heard if not each.status] == ["TimeoutError"]
    assert any(later.at - sooner.at > 1.9 for sooner, later in pairwise(heard) if later.status)


@pytest.mark.parametrize(("fault", "servers"), [("stop", 2), ("hang", 2)])
def test_the_other_servers_answer_meanwhile(fault: str, servers: int) -> None:
    heard = polled(Trial(Fault(0.5, fault, "api-server-2", seconds=60.0), api_servers=servers))
    assert 200 in {each.status for each in heard[1:]}
    if fault == "stop":
        assert {each.status for each in heard} == {200}


def test_a_server_lags_and_catches_up() -> None:
    trial = Trial(Fault(0.5, "lag", "api-server", seconds=20.0, amount=5.0))
    for second in range(1, 30):
        name = f"node-{second:02d}"
        trial.world.timeline.call_at(float(second), lambda name=name: trial.create(NODES, **node(name)))  # type: ignore[misc]
    behind = []

    async def compare() -> None:
        for _ in range(29):
            await asyncio.sleep(1.0)
            heard = await trial.ask("GET", f"{NODES}?resourceVersion=0")
            behind.append(len(trial.names(NODES)) - heard.text.count('"name"'))

    trial.run(compare)
    assert behind[8:18] == [5] * 10
    assert behind[-5:] == [0] * 5


def test_a_watch_at_a_version_that_was_forgotten_is_gone() -> None:
    trial = Trial(Fault(2.0, "forget-versions", "api-server"))
    trial.create(NODES, **node("node-1"))
    heard: list[Heard] = []

    async def watch() -> None:
        version = trial.servers.model.etcd.revision
        trial.create(NODES, **node("node-2"))
        path = f"{NODES}?watch=1&resourceVersion={version}"
        heard.extend([await trial.ask("GET", path, seconds=1.5) for _ in range(3)])

    trial.run(watch)
    assert "node-2" in heard[0].text
    assert '"code":410' in heard[2].text


def test_a_list_at_a_version_that_was_compacted_is_gone() -> None:
    trial = Trial(Fault(2.5, "compact", "etcd"))
    for number in range(5):
        trial.create(NODES, **node(f"node-{number}"))
    token: list[str] = []

    async def ask() -> None:
        heard = await trial.ask("GET", f"{NODES}?limit=2")
        token.append(heard.text.split('"continue":"')[1].split('"')[0])
        trial.create(NODES, **node("node-9"))
        for _ in range(4):
            heard = await trial.ask("GET", f"{NODES}?limit=2&continue={token[0]}")
            statuses.append(heard.status)
            await asyncio.sleep(1.0)

    statuses: list[int] = []
    trial.run(ask)
    assert statuses == [200, 200, 200, 410]


@pytest.mark.parametrize("kind", ["restore", "restore-revision"])
def test_a_restore_takes_back_what_was_written_since_the_backup(kind: str) -> None:
    trial = Trial(Fault(2.0, kind, "etcd", seconds=3.0))
    before = trial.servers.model.etcd.revision
    trial.create(NODES, **node("before"))
    trial.world.timeline.call_at(3.0, lambda: trial.create(NODES, **node("between")))
    seen = []
    for at in (1.0, 4.0, 6.0):
        trial.world.run(at)
        seen.append(trial.names(NODES))
    assert seen == [["before"], ["before", "between"], ["before"]]
    assert trial.servers.model.etcd.revision == before + (1 if kind == "restore-revision" else 1_000_000_001)


def test_an_older_backup_that_is_restored_later_has_newer_versions() -> None:
    trial = Trial(Fault(1.0, "restore", "etcd", seconds=9.0), Fault(2.0, "restore", "etcd", seconds=3.0))
    trial.world.run(6.0)
    trial.create(NODES, **node("between"))
    seen = trial.servers.model.etcd.revision
    trial.world.run(11.0)
    assert trial.servers.model.etcd.revision > seen


def test_where_the_revision_is_kept_a_backup_from_before_an_earlier_restore_is_not_restored() -> None:
    older = Fault(1.0, "restore-revision", "etcd", seconds=9.0)
    trial = Trial(older, Fault(2.0, "restore-revision", "etcd", seconds=3.0))
    trial.world.run(6.0)
    trial.create(NODES, **node("between"))
    trial.world.run(11.0)
    assert trial.names(NODES) == ["between"]


def test_a_server_with_few_seats_lets_requests_wait_or_refuses_them() -> None:
    trial = Trial(Fault(0.5, "limit-requests", "api-server", seconds=20.0, amount=1.0))
    heard: list[Heard] = []

    async def ask() -> None:
        await asyncio.sleep(1.0)
        heard.extend(await asyncio.gather(*(trial.ask("GET", NODES) for _ in range(20))))

    trial.run(ask)
    assert sorted(each.status for each in heard) == [200] * 5 + [429] * 15
    assert max(each.at for each in heard) > 2.5


@pytest.mark.parametrize(("kind", "amount", "status"), [("slow-webhook", 8.0, 201), ("refusing-webhook", 1.0, 403)])
def test_webhooks_hit_writes_alone(kind: str, amount: float, status: int) -> None:
    trial = Trial(Fault(0.5, kind, "api-server", seconds=20.0, amount=amount))
    heard: list[Heard] = []

    async def ask() -> None:
        await asyncio.sleep(1.0)
        heard.append(await trial.ask("GET", NODES))
        heard.append(await trial.ask("POST", NODES, node("node-1")))

    trial.run(ask)
    assert [each.status for each in heard] == [200, status]
    assert round(heard[0].at, 1) == 1.0
    if kind == "slow-webhook":
        assert 1.1 < heard[1].at < 9.1


@pytest.mark.parametrize(("seconds", "amount"), [(50.0, 70.0), (80.0, 50.0)])
def test_a_stale_watch_cache_shows_late_what_is_new(seconds: float, amount: float) -> None:
    trial = Trial(Fault(1.0, "stale-cache", "api-server", seconds, amount))
    trial.world.timeline.call_at(2.0, lambda: trial.create(NODES, **node("new")))
    path = f"{NODES}?watch=true&resourceVersion={trial.servers.model.etcd.revision}"
    heard: list[Heard] = []

    async def watch() -> None:
        heard.extend([await trial.ask("GET", path, seconds=seconds) for seconds in (40.0, 60.0)])

    trial.run(watch, 120.0)
    assert ['"new"' in each.text for each in heard] == [False, True]


def test_after_a_restore_to_an_older_revision_programs_look_before_anyone_writes() -> None:
    trial = Trial(Fault(2.0, "restore-revision", "etcd", seconds=3.0))
    heard: list[Heard] = []

    async def ask() -> None:
        await asyncio.sleep(7.0)
        for method in ("GET", "POST", "POST"):
            heard.append(await trial.ask(method, NODES, node("node-1") if method == "POST" else None))
            await asyncio.sleep(3.0)

    trial.run(ask)
    assert [each.status for each in heard] == [200, 503, 201]

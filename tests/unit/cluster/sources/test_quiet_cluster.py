"""How often an API server is asked where nothing happens, and how soon a silent connection is noticed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import Object
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet
from extender_service.observability.health import trust_check
from tests.support import virtual_time
from tests.support.servers.quiet_api_server import QuietApiServer

READS = (
    *(Namespace, Service, ReplicationController, ReplicaSet, StatefulSet, PodDisruptionBudget),
    *(PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIDriver, CSIStorageCapacity, VolumeAttachment),
)
NODES_AND_PODS = {"nodes", "pods"}


class Quiet:
    """A service that follows a quiet API server."""

    def __init__(self, server: QuietApiServer, api_server: ApiServer, problem: Callable[[], str | None]) -> None:
        self.server = server
        self.api_server = api_server
        self.problem = problem

    def ages(self, kinds: Iterable[str] = ()) -> list[float]:
        """How old what is known of some kinds is, or of all."""
        states = self.api_server.states
        return [virtual_time.time() - states[kind].current_at for kind in kinds or states]

    async def oldest(self, seconds: float, kinds: Iterable[str] = ()) -> float:
        """The greatest age within so many seconds from now on."""
        oldest = 0.0
        until = virtual_time.time() + seconds
        while virtual_time.time() < until:
            oldest = max(oldest, *self.ages(kinds))
            await asyncio.sleep(0.1)
        return oldest

    async def requests(self, seconds: float) -> int:
        """How many requests are sent within so many seconds from now on."""
        before = len(self.server.requests)
        await asyncio.sleep(seconds)
        return len(self.server.requests) - before

    def open_again(self) -> set[str]:
        """The kinds whose watches were opened since theirs was cut off."""
        return {kind for kind, cut_at in self.server.cut_off.items() if self.server.opened[kind] > cut_at}


@asynccontextmanager
async def following(
    server: QuietApiServer, stale_limit: float = 30.0, reads: tuple[type[Object], ...] = READS
) -> AsyncIterator[Quiet]:
    api_server = ApiServer(
        Cluster(), cast(Any, server), reads, stale_limit_seconds=stale_limit, clock=virtual_time.time
    )
    problem = trust_check(api_server.states, stale_limit_seconds=stale_limit, clock=virtual_time.time)
    task = asyncio.create_task(api_server.follow())
    await api_server.wait_synced()
    try:
        yield Quiet(server, api_server, problem)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("has_bookmarks", "seconds_for_one"), [(True, 4.0), (False, 2.2)])
def test_fifteen_kinds_of_which_nothing_happens_take_few_requests(has_bookmarks: bool, seconds_for_one: float) -> None:
    async def test() -> None:
        async with following(QuietApiServer(has_bookmarks=has_bookmarks)) as quiet:
            assert len(quiet.api_server.states) == 15
            await asyncio.sleep(120)
            assert await quiet.requests(1200) < 1200 / seconds_for_one
            assert {state.lists for state in quiet.api_server.states.values()} == {1}

    virtual_time.run(test())


@pytest.mark.parametrize("stale_limit", [10.0, 30.0])
@pytest.mark.parametrize("has_bookmarks", [True, False])
def test_what_is_known_is_never_too_old_while_all_is_well(has_bookmarks: bool, stale_limit: float) -> None:
    async def test() -> None:
        async with following(QuietApiServer(has_bookmarks=has_bookmarks), stale_limit) as quiet:
            assert await quiet.oldest(800) < (9.5 if stale_limit == 10 else 12.5)
            assert await quiet.oldest(400, NODES_AND_PODS) < (4.0 if stale_limit == 10 else 12.5)

    virtual_time.run(test())


@pytest.mark.parametrize("after", [60.0, 63.0, 67.0, 400.0])
@pytest.mark.parametrize("has_bookmarks", [True, False])
def test_when_all_connections_bring_nothing_any_more_all_are_opened_again_within_ten_seconds(
    has_bookmarks: bool, after: float
) -> None:
    async def test() -> None:
        async with following(QuietApiServer(has_bookmarks=has_bookmarks)) as quiet:
            await asyncio.sleep(after)
            quiet.server.cut()
            # Nor is anything too old meanwhile.
            assert await quiet.oldest(9.0) < 20.0
            assert len(quiet.open_again()) == 15
            assert await quiet.oldest(120.0) < 20.0

    virtual_time.run(test())


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_when_the_connection_of_nodes_or_pods_brings_nothing_any_more_it_is_opened_again_soon(kind: str) -> None:
    async def test() -> None:
        async with following(QuietApiServer()) as quiet:
            await asyncio.sleep(100)
            quiet.server.cut(kind)
            await asyncio.sleep(12.5)
            assert quiet.open_again() == {kind}

    virtual_time.run(test())


@pytest.mark.parametrize("after", [100.0, 1000.0])
@pytest.mark.parametrize("has_bookmarks", [True, False])
def test_when_the_connection_of_another_kind_brings_nothing_any_more_it_is_opened_again_within_ninety_seconds(
    has_bookmarks: bool, after: float
) -> None:
    async def test() -> None:
        async with following(QuietApiServer(has_bookmarks=has_bookmarks)) as quiet:
            await asyncio.sleep(after)
            quiet.server.cut("services")
            while "services" not in quiet.open_again():
                await asyncio.sleep(0.1)
            assert virtual_time.time() - quiet.server.cut_off["services"] < 90.0
            assert await quiet.oldest(200.0) < 12.5

    virtual_time.run(test())


def test_an_api_server_that_answers_nothing_any_more_makes_all_kinds_too_old() -> None:
    async def test() -> None:
        async with following(QuietApiServer()) as quiet:
            await asyncio.sleep(100)
            quiet.server.is_away = True
            away_at = virtual_time.time()
            while quiet.problem() is None:
                await asyncio.sleep(0.1)
            # What was known was up to ten seconds old already.
            assert 17.0 < virtual_time.time() - away_at <= 30.2
            await asyncio.sleep(32.0 - (virtual_time.time() - away_at))
            assert min(quiet.ages()) > 30.0
            await asyncio.sleep(300.0)
            quiet.server.is_away = False
            await asyncio.sleep(70.0)
            assert quiet.problem() is None

    virtual_time.run(test())


@pytest.mark.parametrize("has_bookmarks", [True, False])
def test_where_watches_are_not_ended_nothing_gets_too_old(has_bookmarks: bool) -> None:
    async def test() -> None:
        server = QuietApiServer(has_bookmarks=has_bookmarks, ends_watches=False)
        async with following(server) as quiet:
            assert await quiet.oldest(1000.0) < 20.0

    virtual_time.run(test())


def test_where_bookmarks_come_by_chance_their_absence_costs_little() -> None:
    async def test() -> None:
        server = QuietApiServer()
        async with following(server) as quiet:
            for _ in range(20):
                server.has_bookmarks = not server.has_bookmarks
                assert await quiet.oldest(200.0) < 12.5
            server.has_bookmarks = False
            await asyncio.sleep(100.0)
            assert await quiet.requests(600) < 300
            assert {state.lists for state in quiet.api_server.states.values()} == {1}

    virtual_time.run(test())


def test_where_quiet_connections_are_cut_after_a_while_watches_end_before() -> None:
    async def test() -> None:
        server = QuietApiServer(quiet_limit=35.0)
        async with following(server) as quiet:
            await asyncio.sleep(300)
            before = {kind: state.watches for kind, state in quiet.api_server.states.items()}
            errors: set[str | None] = set()
            for _ in range(3000):
                errors |= {state.last_error for state in quiet.api_server.states.values()}
                await asyncio.sleep(0.1)
            assert errors == {None}
            assert quiet.api_server.states["services"].watches - before["services"] < 20
            assert await quiet.oldest(100.0) < 12.5

    virtual_time.run(test())


@pytest.mark.parametrize("reads", [READS, ()])
@pytest.mark.parametrize("seconds", [0.5, 2.0, 7.0, 60.0])
def test_when_an_api_server_that_was_down_answers_again_all_watches_are_open_within_two_seconds(
    reads: tuple[type[Object], ...], seconds: float
) -> None:
    async def test() -> None:
        server = QuietApiServer()
        async with following(server, reads=reads) as quiet:
            for _ in range(10):
                await asyncio.sleep(30.0)
                server.is_down = True
                await asyncio.sleep(seconds)
                assert [kind for kind, state in quiet.api_server.states.items() if state.watch] == []
                server.is_down = False
                await asyncio.sleep(2.0)
                assert [kind for kind, state in quiet.api_server.states.items() if not state.watch] == []

    virtual_time.run(test())


def test_an_api_server_that_is_down_is_not_flooded() -> None:
    async def test() -> None:
        server = QuietApiServer()
        async with following(server) as quiet:
            server.is_down = True
            assert await quiet.requests(60.0) < 7 * 60

    virtual_time.run(test())


def test_watches_that_open_and_fail_do_not_drive_each_other() -> None:
    async def test() -> None:
        server = QuietApiServer()
        async with following(server) as quiet:
            server.is_down = True
            await asyncio.sleep(1.0)
            server.is_down, server.breaks_watches = False, True
            await asyncio.sleep(30.0)
            # A try is a watch and a look at the latest version; after a wait that was cut short comes a whole one.
            assert await quiet.requests(60.0) < 2 * 2 * 7 * 60

    virtual_time.run(test())

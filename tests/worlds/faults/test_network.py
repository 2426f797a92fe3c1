"""What a client and an API server see of faults of the network between them."""

import asyncio

import pytest

from tests.worlds.faults.plan import Fault
from tests.worlds.faults.trial import Heard, Trial

NODES = "/api/v1/nodes"
LINK = "replica-0/api-server"


def created(fault: Fault, at: float = 2.0, seconds: float = 3.0) -> tuple[Heard, list[str], list[str]]:
    """What a caller hears who creates a node, and gives up after some seconds; the nodes there are then, and later."""
    trial = Trial(fault)
    heard: list[Heard] = []
    nodes: list[list[str]] = []

    async def create() -> None:
        await asyncio.sleep(at)
        heard.append(await trial.ask("POST", NODES, {"metadata": {"name": "node-1"}}, seconds=seconds))
        nodes.append(trial.names(NODES))

    trial.run(create)
    return heard[0], nodes[0], trial.names(NODES)


def test_between_hosts_that_are_cut_off_no_connection_opens() -> None:
    heard, then, later = created(Fault(1.0, "cut", LINK, seconds=20.0))
    assert (round(heard.at, 1), heard.text, then, later) == (5.0, "TimeoutError", [], [])


def test_of_overlapping_cuts_the_last_end_counts() -> None:
    trial = Trial(Fault(1.0, "cut", LINK, 10.0), Fault(2.0, "cut-answers", LINK, 2.0), Fault(3.0, "cut", LINK, 4.0))
    heard: list[Heard] = []

    async def ask() -> None:
        await asyncio.sleep(4.0)
        heard.append(await trial.ask("GET", NODES))

    trial.run(ask)
    assert (heard[0].status, round(heard[0].at, 1)) == (200, 11.0)


@pytest.mark.parametrize(
    ("kind", "then", "later"),
    [("cut-requests", [], ["node-1"]), ("cut-answers", ["node-1"], ["node-1"]), ("cut", [], ["node-1"])],
)
def test_a_request_is_carried_out_though_its_caller_has_given_up(kind: str, then: list[str], later: list[str]) -> None:
    trial = Trial(Fault(2.0, kind, LINK, seconds=20.0))
    seen: list[list[str]] = []

    async def create() -> None:
        _, writer = await asyncio.open_connection("10.0.0.1", 8080)
        await asyncio.sleep(3.0)
        body = b'{"metadata":{"name":"node-1"}}'
        writer.write(b"POST %b HTTP/1.1\r\ncontent-type: application/json\r\n" % NODES.encode())
        writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        await asyncio.sleep(5.0)
        writer.close()
        seen.append(trial.names(NODES))

    trial.run(create)
    assert (seen[0], trial.names(NODES)) == (then, later)


def test_a_slow_network_costs_its_time_each_way() -> None:
    heard, *_ = created(Fault(1.0, "slow-network", LINK, seconds=20.0, amount=0.5))
    assert heard.status == 201
    assert round(heard.at, 1) == 4.0  # to connect, and to ask


def connected(kind: str, amount: float) -> list[str]:
    """How four connections look to a client that reads from them for a minute after a fault."""
    trial = Trial(Fault(2.0, kind, LINK, amount=amount))

    async def read() -> str:
        reader, writer = await asyncio.open_connection("10.0.0.1", 8080)
        try:
            async with asyncio.timeout(60.0):
                return "closed" if not await reader.read(1) else "read"
        except (OSError, TimeoutError) as error:
            return type(error).__name__
        finally:
            writer.close()

    ends: list[str] = []

    async def main() -> None:
        ends.extend(await asyncio.gather(*(read() for _ in range(4))))

    trial.run(main)
    return ends


@pytest.mark.parametrize(
    ("kind", "end"), [("reset-connections", "ConnectionResetError"), ("close-connections", "closed")]
)
def test_one_connection_or_all_end(kind: str, end: str) -> None:
    assert sorted(connected(kind, 0.3)) == sorted([*["TimeoutError"] * 3, end])
    assert connected(kind, 0.5) == [end] * 4


def test_a_connection_that_is_lost_looks_open() -> None:
    trial = Trial(Fault(2.0, "lose-connections", LINK, amount=1.0))
    heard: list[bytes] = []

    async def main() -> None:
        reader, writer = await asyncio.open_connection("10.0.0.1", 8080)
        await asyncio.sleep(3.0)
        writer.write(b"GET %b HTTP/1.1\r\n\r\n" % NODES.encode())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30.0):
                heard.append(await reader.read(1))
        assert (await trial.ask("GET", NODES)).status == 200  # new ones are as always
        writer.close()

    trial.run(main)
    assert heard == []
    assert sum("GET /api/v1/nodes of replica-0" in line for line in trial.world.trace.lines) == 1


@pytest.mark.parametrize("bytes_sent", [1, 50, 200])
@pytest.mark.parametrize(
    ("kind", "end"), [("reset-within-answer", "ConnectionResetError"), ("close-within-answer", "")]
)
def test_an_answer_ends_at_any_byte_and_all_was_done(kind: str, end: str, bytes_sent: int) -> None:
    heard, then, _ = created(Fault(1.0, kind, LINK, amount=bytes_sent))
    assert len(heard.text.removesuffix(end)) <= bytes_sent
    assert heard.text.endswith(end)
    assert then == ["node-1"]


@pytest.mark.parametrize("kind", ["reset-within-request", "close-within-request"])
def test_a_request_ends_at_any_byte_and_nothing_is_done(kind: str) -> None:
    heard, _, later = created(Fault(1.0, kind, LINK, amount=60))
    assert heard.status == 0
    assert later == []


@pytest.mark.parametrize(("asked_at", "status"), [(30.0, 0), (32.0, 201)])
def test_a_request_that_comes_half_a_minute_later_does_not_end_any_more(asked_at: float, status: int) -> None:
    heard, _, _ = created(Fault(1.0, "close-within-request", LINK, amount=60), at=asked_at)
    assert heard.status == status

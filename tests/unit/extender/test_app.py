import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
import uvloop

from extender_service.cluster.view.node_view import NodeView
from extender_service.extender.overload.overload import CallLimits
from extender_service.extender.reporting.observation import Verb
from extender_service.extender.wire.description import describe
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter
from extender_service.framework.status import Rejections, unschedulable
from extender_service.kube.types.core import Pod
from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.limited_server import LimitedServer
from extender_service.serving.refusals import Refusals
from tests.support.clock import Clock
from tests.support.clusters.extender_world import ExtenderWorld, Hold
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "1"})
VERBS: tuple[Verb, ...] = ("filter", "prioritize", "preempt", "bind")

MALFORMED = {
    "nothing": b"",
    "no JSON": b"<html>",
    "half of it": b'{"Pod":{"metadata"',
    "null": b"null",
    "a list": b"[]",
    "a number": b"7",
    "not UTF-8": b'{"Pod":{"metadata":{"name":"\xff"}},"Node":"\xff","NodeNames":["a"]}',
    "nested too deeply": b'{"Pod":' + b"[" * 200_000,
    "wrong types": b'{"Pod":7,"PodName":7,"NodeNames":7}',
    "an empty object": b"{}",
}


def error_of(verb: Verb, status: int, answer: Mapping[str, Any], expected: int = 400) -> str:
    """The error of an answer, which must have the form that the verb's callers expect, and this status or 200."""
    if verb in ("prioritize", "preempt"):
        assert status == expected
        assert set(answer) == {"Error"}
    else:
        assert status == 200
    if verb == "filter":
        assert (answer["NodeNames"], answer["Nodes"]) == (None, None)
        assert (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"]) == ({}, {})
    error = answer["Error"]
    assert isinstance(error, str)
    assert error
    return error


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_body_is_answered_in_the_verbs_own_form(verb: Verb, body: bytes) -> None:
    world = ExtenderWorld()
    answer = asyncio.run(world.post(verb, body))
    error = error_of(verb, answer.status_code, answer.json())
    assert "internal error" not in error
    assert "\n" not in error
    (observation,) = world.observations
    assert (observation.verb, observation.error) == (verb, error)


@pytest.mark.parametrize(
    ("verb", "body", "names"),
    [
        ("filter", {"NodeNames": ["a"]}, "Pod is missing"),
        ("filter", {"Pod": {}}, "NodeNames is missing"),
        ("filter", {"Pod": {}, "NodeNames": [1]}, "$.NodeNames[0]"),
        ("filter", {"Pod": {}, "Nodes": {"items": [{"metadata": {"name": 1}}]}}, "Nodes.items[0]"),
        ("prioritize", {"NodeNames": ["a"]}, "Pod is missing"),
        ("prioritize", {"Pod": {}}, "NodeNames is missing"),
        ("preempt", {"NodeNameToMetaVictims": {}}, "Pod is missing"),
        ("preempt", {"Pod": {}, "NodeNameToMetaVictims": {"a": 1}}, "$.NodeNameToMetaVictims[...]"),
        ("bind", {"PodName": "web", "PodNamespace": "default", "PodUID": "u"}, "Node is missing"),
        ("bind", {"PodName": ["web"]}, "$.PodName"),
        (
            "bind",
            {"PodName": 254 * "x", "PodNamespace": "default", "PodUID": "u", "Node": "a"},
            "PodName has 254 characters, of which 253 are the most",
        ),
        *[
            (
                verb,
                {"Pod": {"metadata": {field: 254 * "x"}}, "NodeNames": ["a"], "NodeNameToMetaVictims": {}},
                f"Pod.metadata.{field} has 254 characters, of which 253 are the most",
            )
            for verb in ("filter", "prioritize", "preempt")
            for field in ("name", "namespace")
        ],
        (
            "preempt",
            {"Pod": {"metadata": {"labels": {f"k{n}": "" for n in range(2000)}}}},
            "Pod.metadata.labels has 2000",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(verb: Verb, body: Mapping[str, object], names: str) -> None:
    answer = asyncio.run(ExtenderWorld().post(verb, body))
    assert names in error_of(verb, answer.status_code, answer.json())


class Fails(Filter):
    name = "Fails"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        raise ZeroDivisionError("100% broken, %d")


def test_an_error_holds_no_percent_sign() -> None:
    """kube-scheduler uses the text as a format string."""
    world = ExtenderWorld(make_node("a"), plugins={})
    world.profile.filter = (Fails(None, Handle(world.cluster, world.pods)),)
    answer = asyncio.run(world.call("filter", {"Pod": WEB, "NodeNames": ["a"]}))
    assert answer["Error"] == 'running "Fails" filter plugin: ZeroDivisionError: 100(percent) broken, (percent)d'
    assert world.observations[0].error == answer["Error"]
    assert world.observations[0].pod == "default/web"


class SaysTooMuch(Filter):
    name = "SaysTooMuch"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        return Rejections.where(nodes.exists, unschedulable(400_000 * "x"))


def test_reasons_that_nobody_can_read_are_an_error() -> None:
    nodes = [make_node(f"node-{number}") for number in range(100)]
    world = ExtenderWorld(*nodes, plugins={})
    world.profile.filter = (SaysTooMuch(None, Handle(world.cluster, world.pods)),)
    names = [node.metadata.name for node in nodes]
    answer = asyncio.run(world.call("filter", {"Pod": WEB, "NodeNames": names}))
    assert answer["Error"].startswith("the reasons against 100 nodes have 400000 characters for each, too many")
    assert len(answer["Error"]) < 500
    assert len(asyncio.run(world.call("filter", {"Pod": WEB, "NodeNames": names[:10]}))["FailedNodes"]) == 10


ABOUT_A = {
    "Pod": {"metadata": {"name": "web", "uid": "u"}, "spec": {"priority": 1}},
    "NodeNames": ["a"],
    "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-of-old"}]}},
    "PodName": "web",
    "PodNamespace": "default",
    "PodUID": "uid-of-web",
    "Node": "a",
}
DECIDING: tuple[Verb, ...] = ("filter", "prioritize", "preempt")


def limited(verb: Verb, limits: CallLimits, others: int = 0) -> tuple[ExtenderWorld, int, str]:
    """What comes of a call within these limits, while so many others are in work: a world, status and error."""
    world = ExtenderWorld(make_node("a"), limits=limits)
    world.cluster.apply_pod(make_pod("old", "a"))
    world.pods.put(WEB)
    world.load.in_work = others
    answer = asyncio.run(world.post(verb, ABOUT_A))
    body = answer.json()
    return world, answer.status_code, body.get("Error", "") if isinstance(body, dict) else ""


@pytest.mark.parametrize("verb", DECIDING)
def test_one_call_too_many_is_an_error_in_the_verbs_own_form(verb: Verb) -> None:
    world, status, error = limited(verb, CallLimits(requests=3), others=3)
    assert error == "too much to do: 4 calls are in work (--max-requests)"
    assert status == (200 if verb == "filter" else 503)
    assert world.observations[0].limit == "requests"
    assert limited(verb, CallLimits(requests=4), others=3)[2] == ""


@pytest.mark.parametrize("verb", DECIDING)
def test_a_call_whose_time_is_over_is_not_decided_about(verb: Verb) -> None:
    world, status, error = limited(verb, CallLimits(decision_seconds=-1))
    assert error == "waiting for its turn: the time for this decision is over (--decision-timeout)"
    assert status == (200 if verb == "filter" else 503)
    assert world.observations[0].limit == "decision-time"


def test_a_call_that_the_caller_is_not_to_be_configured_for_is_its_fault() -> None:
    world = ExtenderWorld(make_node("a"))
    world.pods.put(WEB)
    world.extender.preempt.is_off = True
    answer = asyncio.run(world.post("preempt", ABOUT_A))
    error = error_of("preempt", answer.status_code, answer.json())
    assert error == "the service preempts by itself (--preemption=service): configure no preemptVerb"


class TakesLong(Filter):
    """Takes five seconds of the world's clock."""

    name = "TakesLong"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        assert isinstance(self.handle.clock, Clock)
        self.handle.clock.pass_seconds(5)
        return None


def test_one_clock_counts_from_the_arrival_of_a_call_to_its_decision() -> None:
    world = ExtenderWorld(make_node("a"), plugins={}, limits=CallLimits(decision_seconds=4))
    world.profile.filter = (TakesLong(None, world.handle), Fails(None, world.handle))

    async def call() -> Any:
        async with listening(world) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(http_request("/filter", {"Pod": {}, "NodeNames": ["a"]}))
            answer = await read_response(reader)
            writer.close()
            return answer[2]

    error = 'running "TakesLong" filter plugin: the time for this decision is over (--decision-timeout)'
    assert asyncio.run(call())["Error"] == error
    assert [(each.seconds, each.limit) for each in world.observations] == [(5.0, "decision-time")]


def test_bindings_have_a_limit_of_their_own_and_no_deadline() -> None:
    assert limited("bind", CallLimits(requests=0, decision_seconds=-1), others=9)[2] == ""
    world, status, error = limited("bind", CallLimits(bindings=0))
    assert (status, error) == (200, "too much to do: 0 bindings are in work (--max-bindings)")
    assert world.observations[0].limit == "bindings"


def test_bindings_that_wait_keep_no_other_call_from_its_turn() -> None:
    world = ExtenderWorld(make_node("a"), limits=CallLimits(requests=1, bindings=1))
    world.pods.put(WEB)
    world.pods.hold = Hold()

    async def calls() -> None:
        binding = asyncio.create_task(world.bind(WEB, "a"))
        assert world.pods.hold is not None
        await world.pods.hold.arrived.wait()
        assert (await world.filter(make_pod("other"), ["a"]))["NodeNames"] == ["a"]
        assert "1 bindings are in work" in await world.bind(make_pod("other"), "a")
        world.pods.hold.go_on.set()
        assert await binding == ""

    asyncio.run(calls())
    assert world.load.bindings == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_that_is_too_large_is_not_read(verb: Verb) -> None:
    world, status, error = limited(verb, CallLimits(body_bytes=20))
    assert (status, error) == (413, "the body has more than 20 bytes (--max-body-size)")
    assert world.observations[0].limit == "body-size"


@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_of_our_own_is_an_error_too(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExtenderWorld()

    def broken(*_: object) -> None:
        raise AssertionError("50% of it")

    for name in ("decide", "score", "dry_run"):
        monkeypatch.setattr(world.engine, name, broken)
    monkeypatch.setattr(world.engine.binder.confirmations, "read_pod", broken)
    body = {"Pod": WEB, "NodeNames": ["a"], "PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"}
    victims = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-of-old"}]}}}
    world.cluster.apply_node(make_node("a"))
    world.cluster.apply_pod(make_pod("old", "a"))
    answer = asyncio.run(world.post(verb, {**body, **victims}))
    error = error_of(verb, answer.status_code, answer.json(), expected=500)
    assert error == "internal error: AssertionError: 50(percent) of it"


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_posted(verb: Verb) -> None:
    async def get() -> int:
        world = ExtenderWorld()
        import httpx

        transport = httpx.ASGITransport(world.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.get(f"/{verb}")).status_code

    assert asyncio.run(get()) == 405


# Over a real connection.


@asynccontextmanager
async def listening(world: ExtenderWorld) -> AsyncIterator[int]:
    """Serve with the server and the parser that the service runs with; the value is the port."""
    config = uvicorn.Config(world.app, http="httptools", lifespan="off", log_config=None, access_log=False)
    connections = LimitedConnections(ConnectionLimits(), Refusals(), world.clock)
    server = LimitedServer(config, connections, BrowserGuard("127.0.0.1"))
    world.load.tasks = server.server_state.tasks
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


def http_request(path: str, body: object, method: str = "POST") -> bytes:
    content = json.dumps(body).encode()
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    content = await reader.readexactly(int(headers["content-length"]))
    return int(status_line.split()[1]), headers, json.loads(content)


def test_answers_have_a_length_and_the_connection_stays_open() -> None:
    """After a chunked answer kube-scheduler often drops the connection."""
    bodies: dict[str, object] = {
        "filter": {"Pod": {"metadata": {"name": "web"}}, "NodeNames": ["a"]},
        "prioritize": {"Pod": {}, "NodeNames": ["a"]},
        "preempt": {"Pod": {}, "NodeNameToMetaVictims": {}},
        "bind": {"PodName": ""},
    }

    async def calls() -> None:
        async with listening(ExtenderWorld(make_node("a"))) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for verb, body in [*bodies.items(), ("filter", {})] * 2:
                writer.write(http_request(f"/{verb}", body))
                status, headers, answer = await read_response(reader)
                assert status == 200
                assert "transfer-encoding" not in headers
                assert headers.get("connection") != "close"
                assert headers["content-type"] == "application/json"
                assert isinstance(answer, list) == (verb == "prioritize")
            writer.close()

    asyncio.run(calls())


def test_the_description_is_served() -> None:
    async def calls() -> Any:
        async with listening(ExtenderWorld()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(http_request("/openapi.json", None, "GET"))
            answer = await read_response(reader)
            writer.close()
            return answer[2]

    assert asyncio.run(calls()) == describe()


ABOUT_WEB = http_request("/filter", {"Pod": {"metadata": {"name": "web"}}, "NodeNames": ["a"]})


async def connect(port: int, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


def test_calls_whose_body_does_not_come_keep_no_other_call_from_its_turn() -> None:
    world = ExtenderWorld(make_node("a"), limits=CallLimits(requests=1))

    async def calls() -> Any:
        async with listening(world) as port:
            *silent, (reader, writer) = await connect(port, 4)
            for _, without_body in silent:
                without_body.write(ABOUT_WEB.partition(b"{")[0])
            while len(world.load.tasks) < len(silent):
                await asyncio.sleep(0)
            writer.write(ABOUT_WEB)
            answer = await read_response(reader)
            for _, each in [*silent, (reader, writer)]:
                each.close()
            return answer[2]

    assert asyncio.run(calls())["NodeNames"] == ["a"]
    assert world.load.in_work == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_of_calls_that_come_at_once_those_over_the_limit_fail_at_once(run: Callable[..., list[str]]) -> None:
    world = ExtenderWorld(make_node("a"), limits=CallLimits(requests=2))

    async def calls() -> list[str]:
        async with listening(world) as port:
            callers = await connect(port, 5)
            for _, writer in callers:
                writer.write(ABOUT_WEB)
            errors = [(await read_response(reader))[2]["Error"] for reader, _ in callers]
            for _, writer in callers:
                writer.close()
            return errors

    errors = run(calls())
    assert sum("(--max-requests)" in error for error in errors) == 3
    assert errors.count("") == 2
    assert world.load.in_work == 0


class Slow(Filter):
    """Takes its time without giving the event loop a chance, as a large decision does."""

    name = "Slow"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        time.sleep(0.05)
        return None


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_nothing_is_expected_for_a_caller_that_hung_up_meanwhile(run: Callable[..., None]) -> None:
    world = ExtenderWorld(make_node("a"), mode="replace", plugins={})
    world.profile.filter = (Slow(None, Handle(world.cluster, world.pods)),)
    body = {"Pod": {"metadata": {"name": "web", "uid": "uid-of-web"}}, "NodeNames": ["a"]}

    async def calls() -> None:
        async with listening(world) as port:
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(http_request("/filter", body))
            async with asyncio.timeout(5):
                while not world.observations:
                    await asyncio.sleep(0.001)

    run(calls())
    assert world.observations[0].node_name == "a"
    assert world.expected_on(WEB) is None


def test_a_pod_without_a_namespace_is_one_of_the_default_namespace() -> None:
    world = ExtenderWorld(make_node("a"), mode="replace")
    asyncio.run(world.post("filter", {"Pod": {"metadata": {"name": "web"}}, "NodeNames": ["a"]}))
    assert [observation.pod for observation in world.observations] == ["default/web"]
    assert [placement.uid for placement in world.cluster.placements] == ["default/web"]

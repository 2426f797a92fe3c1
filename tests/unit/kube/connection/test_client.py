import asyncio
import base64
import gc
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from extender_service.kube.api_errors import ApiError, InvalidAnswerError, KubeError, SilentError, UnreachableError
from extender_service.kube.connection import client as client_module
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.connection.sent_requests import SentRequests
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import NODES, PODS
from extender_service.kube.types.core import Node, Pod
from extender_service.serving import open_files
from tests.support.clock import Clock
from tests.support.servers.http_server import Handler, Request, Response, http_server
from tests.support.servers.kubeconfig_files import write_kubeconfig


@asynccontextmanager
async def client_of(handler: Handler) -> AsyncIterator[KubeClient]:
    async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
        yield client


def answer_to(call: Callable[[KubeClient], Awaitable[Any]], status: int, body: Any, **headers: str) -> Any:
    """Answer every request so; return the request and what the call returned."""
    requests: list[Request] = []

    async def handler(request: Request, response: Response) -> None:
        requests.append(request)
        await response.send_json(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    async def main() -> Any:
        async with client_of(handler) as client:
            return await call(client)

    result = asyncio.run(main())
    (request,) = requests
    return request, result


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": None}


def test_gets_an_object() -> None:
    request, pod = answer_to(lambda client: client.get(PODS, "ns", "p"), 200, POD)
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/ns/pods/p")
    assert isinstance(pod, Pod)
    assert pod.metadata.uid == "u"


def test_gets_a_cluster_scoped_object() -> None:
    request, node = answer_to(lambda client: client.get(NODES, "", "n"), 200, {"metadata": {"name": "n"}})
    assert request.path == "/api/v1/nodes/n"
    assert isinstance(node, Node)


def test_says_who_is_calling_and_asks_for_plain_json() -> None:
    request, _ = answer_to(lambda client: client.get(PODS, "ns", "p"), 200, POD)
    assert request.header("user-agent") == f"extender-service/{version('extender-service')}"
    assert request.header("accept") == "application/json"
    assert request.header("accept-encoding") == "identity"
    assert request.header("authorization") is None


def test_creates_an_object() -> None:
    request, pod = answer_to(lambda client: client.create(PODS, "ns", {"metadata": {"name": "p"}}), 201, POD)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert request.header("content-type") == "application/json"
    assert json.loads(request.body) == {"metadata": {"name": "p"}}
    assert pod.metadata.uid == "u"


def test_patches_a_subresource() -> None:
    patch = {"status": {"nominatedNodeName": "n"}}
    request, pod = answer_to(lambda client: client.patch(PODS, "ns", "p", patch, subresource="status"), 200, POD)
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
    assert request.header("content-type") == "application/strategic-merge-patch+json"
    assert json.loads(request.body) == patch
    assert pod.metadata.name == "p"


def test_binds_a_pod_only_if_it_is_still_the_same() -> None:
    request, _ = answer_to(
        lambda client: client.bind("ns", "p", "uid-1", "n"), 201, {"kind": "Status", "status": "Success"}
    )
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ns", "name": "p", "uid": "uid-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


def test_lists_page_by_page_from_the_latest_state() -> None:
    queries: list[dict[str, str]] = []

    async def handler(request: Request, response: Response) -> None:
        queries.append(request.query)
        page = int(request.query.get("continue", "0"))
        meta = {"resourceVersion": "42", **({"continue": str(page + 1)} if page < 2 else {})}
        await response.send_json(200, {"metadata": meta, "items": [POD] * (2 - page) or None})

    async def main() -> None:
        async with client_of(handler) as client:
            pages = [page async for page in client.list_pages(PODS, field_selector="spec.nodeName!=", limit=2)]
        assert [len(page.items) for page in pages] == [2, 1, 0]
        assert {page.resource_version for page in pages} == {"42"}
        assert all(isinstance(pod, Pod) for page in pages for pod in page.items)

    asyncio.run(main())
    assert queries == [
        {"limit": "2", "fieldSelector": "spec.nodeName!="},
        {"limit": "2", "fieldSelector": "spec.nodeName!=", "continue": "1"},
        {"limit": "2", "fieldSelector": "spec.nodeName!=", "continue": "2"},
    ]


def test_pages_have_fewer_objects_where_those_are_big() -> None:
    limits: list[int] = []
    big = {**POD, "status": {"message": "x" * 50_000}}

    async def handler(request: Request, response: Response) -> None:
        limits.append(int(request.query["limit"]))
        meta = {"resourceVersion": "42", **({"continue": "more"} if len(limits) < 3 else {})}
        await response.send_json(200, {"metadata": meta, "items": [[big, big], [], [POD]][len(limits) - 1]})

    async def main() -> None:
        async with client_of(handler) as client:
            assert sum([len(page.items) async for page in client.list_pages(PODS)]) == 3

    asyncio.run(main())
    # Two million bytes are a page.
    assert limits == [100, 41, 41]


def serve_items(items: list[bytes], limits: list[int]) -> Handler:
    """Answer lists with so many items as they ask for, which goes to `limits`."""

    async def handler(request: Request, response: Response) -> None:
        first, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        limits.append(limit)
        rest = {"continue": str(first + limit)} if first + limit < len(items) else {}
        meta = json.dumps({"resourceVersion": "42", **rest}).encode()
        body = b'{"metadata":%b,"items":[%b]}' % (meta, b",".join(items[first : first + limit]))
        await response.send_head(200, {"Content-Length": str(len(body))})
        await response.send_raw(body)

    return handler


def pod_of(size: int) -> bytes:
    return json.dumps({**POD, "status": {"message": "x" * size}}).encode()


def test_a_page_that_would_be_too_large_is_asked_for_again_with_fewer_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MOST_PAGE_BYTES", 8 << 20)
    read = HttpConnection.body
    sizes: list[int] = []
    limits: list[int] = []

    async def noting(http: HttpConnection, most_bytes: int) -> bytes:
        body = await read(http, most_bytes)
        sizes.append(len(body))
        return body

    monkeypatch.setattr(HttpConnection, "body", noting)
    small, large = pod_of(10), pod_of(3 << 20)

    async def main() -> None:
        handler = serve_items([small] * 100 + [large] * 10 + [small] * 100, limits)
        async with asyncio.timeout(30.0), client_of(handler) as client:
            assert sum([len(page.items) async for page in client.list_pages(PODS)]) == 210

    asyncio.run(main())
    assert limits == [100, 200, 50, 12, 3, *[1] * 11, 2, 4, 8, 16, 32, 64]
    assert max(sizes) <= 8 << 20


def test_an_object_that_is_larger_than_a_page_may_be_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("_MOST_PAGE_BYTES", "_MOST_UNPAGED_BYTES"):
        monkeypatch.setattr(client_module, bound, 1 << 20)
    limits: list[int] = []

    async def main() -> None:
        async with asyncio.timeout(30.0), client_of(serve_items([pod_of(2 << 20)] * 9, limits)) as client:
            with pytest.raises(UnreachableError, match=r"the answer is larger than 1 MiB$"):
                await anext(client.list_pages(PODS, limit=30))

    asyncio.run(main())
    assert limits == [30, 7, 1]


def test_a_server_without_pages_may_answer_with_more_than_a_page_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "_MOST_PAGE_BYTES", 1 << 20)
    whole = b'{"metadata":{"resourceVersion":"42"},"items":[%b]}' % b",".join([pod_of(1 << 20)] * 5)

    async def handler(_request: Request, response: Response) -> None:
        await response.send_head(200, {"Content-Length": str(len(whole))})
        await response.send_raw(whole)

    async def main() -> None:
        async with asyncio.timeout(30.0), client_of(handler) as client:
            assert [len(page.items) async for page in client.list_pages(PODS)] == [5]

    asyncio.run(main())


def test_watches_from_a_version_on() -> None:
    queries: list[dict[str, str]] = []

    async def handler(request: Request, response: Response) -> None:
        queries.append(request.query)
        await response.start_chunks()
        for kind in ("ADDED", "DELETED"):
            await response.send_chunk(json.dumps({"type": kind, "object": POD}).encode() + b"\n")
        await response.end_chunks()

    async def main() -> None:
        async with (
            client_of(handler) as client,
            client.watch(PODS, "42", field_selector="a=b", timeout_seconds=400) as events,
        ):
            assert [(event.type, event.object.metadata.name) async for event in events] == [
                ("ADDED", "p"),
                ("DELETED", "p"),
            ]

    asyncio.run(main())
    assert queries == [
        {
            "watch": "1",
            "resourceVersion": "42",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "400",
            "fieldSelector": "a=b",
        }
    ]


def test_a_silent_watch_ends() -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.start_chunks()
        await asyncio.sleep(3600)

    async def main() -> None:
        async with client_of(handler) as client, client.watch(PODS, "42", idle_seconds=0.05) as events:
            with pytest.raises(SilentError, match=r"nothing came for 0\.05 s"):
                [event async for event in events]

    asyncio.run(main())


def test_a_watch_whose_refusal_has_no_end_is_given_up() -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        while True:
            await response.send_raw(b" ")
            await asyncio.sleep(0.01)

    async def main() -> None:
        async with asyncio.timeout(30.0), client_of(handler) as client:
            with pytest.raises(SilentError, match=r"no whole answer came for 0\.2 s$"):
                async with client.watch(PODS, "42", answer_seconds=0.2):
                    raise AssertionError("it was refused")

    asyncio.run(main())


def test_an_error_of_the_api_is_told_as_it_is() -> None:
    status = {
        "kind": "Status",
        "code": 409,
        "reason": "Conflict",
        "message": "pod p is already assigned to node n",
        "details": {"causes": [{"reason": "X", "message": "because"}]},
    }
    with pytest.raises(ApiError, match=r"^pod p is already assigned to node n \(409 Conflict\)$") as error:
        answer_to(lambda client: client.bind("ns", "p", "u", "n"), 409, status)
    assert (error.value.status_code, error.value.reason) == (409, "Conflict")
    assert error.value.causes[0].message == "because"
    assert error.value.retry_after_seconds is None


class PuttingOff:
    """Puts requests off, each with the next of some answers (status, Retry-After), and then answers them."""

    def __init__(self, *answers: tuple[int, str | None]) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        self.waits: list[float] = []
        self._answers = list(answers)

    async def __call__(self, request: Request, response: Response) -> None:
        self.requests.append((request.method, request.path, request.body))
        if not self._answers:
            await response.send_json(200, {**POD, "items": []})
            return
        status, retry_after = self._answers.pop(0)
        details = {"reason": "TooManyRequests", "details": {"retryAfterSeconds": 5}}
        await response.send_json(status, details, {"Retry-After": retry_after} if retry_after is not None else {})

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    def call(self, call: Callable[[KubeClient], Awaitable[Any]], **options: Any) -> None:
        async def main() -> None:
            async with (
                http_server(self) as url,
                KubeClient(load_credentials(master=url), sleep=self.wait, **options) as client,
            ):
                await call(client)

        asyncio.run(main())


CALLS: dict[str, Callable[[KubeClient], Awaitable[Any]]] = {
    "bind": lambda client: client.bind("ns", "p", "u", "n"),
    "patch": lambda client: client.patch(PODS, "ns", "p", {"spec": {}}),
    "create": lambda client: client.create(PODS, "ns", {"metadata": {"name": "p"}}),
    "delete": lambda client: client.delete(PODS, "ns", "p", "u"),
    "get": lambda client: client.get(PODS, "ns", "p"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_request_that_is_put_off_is_repeated_when_the_server_says(call: Callable[[KubeClient], Any]) -> None:
    server = PuttingOff((429, "7"), (503, "0"), (500, " 1 "), (503, "3600"))
    server.call(call)
    assert server.waits == [7.0, 0.0, 1.0, 60.0]
    assert len(server.requests) == 5
    assert len(set(server.requests)) == 1


def test_a_request_is_repeated_ten_times_at_most() -> None:
    server = PuttingOff(*[(429, "1")] * 11)
    with pytest.raises(ApiError, match="429") as error:
        server.call(CALLS["bind"])
    assert error.value.retry_after_seconds == 1.0
    assert (len(server.requests), len(server.waits)) == (11, 10)


@pytest.mark.parametrize(
    "answer", [(429, None), (503, None), (409, "1"), (404, "1"), (429, "soon"), (429, "-1"), (429, "9" * 30)]
)
def test_a_refusal_that_does_not_say_when_or_that_will_not_change_is_an_error_at_once(
    answer: tuple[int, str | None],
) -> None:
    server = PuttingOff(answer)
    with pytest.raises(ApiError, match=str(answer[0])):
        server.call(CALLS["bind"])
    assert len(server.requests) == 1


def test_lists_are_not_repeated_here() -> None:
    server = PuttingOff((429, "1"))
    with pytest.raises(ApiError, match="429"):
        server.call(lambda client: client.latest_version(PODS))
    assert len(server.requests) == 1


def test_what_waits_to_be_repeated_holds_up_no_other_request() -> None:
    async def main() -> None:
        refused = 0
        go_on = asyncio.Event()

        async def handler(request: Request, response: Response) -> None:
            nonlocal refused
            if request.path.endswith("first") and not go_on.is_set():
                refused += 1
                await response.send_json(429, {}, {"Retry-After": "60"})
            else:
                await response.send_json(200, POD)

        async def wait(_: float) -> None:
            await go_on.wait()

        # One read at a time.
        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url), most_requests=2, sleep=wait) as client,
            asyncio.TaskGroup() as calls,
        ):
            first = calls.create_task(client.get(PODS, "ns", "first"))
            while not refused:
                await asyncio.sleep(0.001)
            await client.get(PODS, "ns", "second")
            assert not first.done()
            go_on.set()

    asyncio.run(main())


def test_a_write_that_must_not_be_sent_any_more_is_not_repeated() -> None:
    reasons = iter([None, None, "another leads"])  # asked twice for each try: see below
    server = PuttingOff((429, "1"))
    with pytest.raises(KubeError, match=r"^not sent: another leads$"):
        server.call(CALLS["bind"], refuse_writes=lambda: next(reasons))
    assert len(server.requests) == 1
    PuttingOff().call(CALLS["get"], refuse_writes=lambda: "another leads")


def test_at_the_end_writes_that_were_sent_are_answered_and_no_other_is_sent() -> None:
    requests: list[str] = []
    go_on = asyncio.Event()

    async def handler(request: Request, response: Response) -> None:
        requests.append(request.method)
        if request.method != "GET":
            await go_on.wait()
        await response.send_json(200, POD)

    async def main() -> None:
        limit = TokenBucket(0.1, 1)
        async with http_server(handler) as url, KubeClient(load_credentials(master=url), limit=limit) as client:
            sent = asyncio.ensure_future(CALLS["bind"](client))
            while not requests:
                await asyncio.sleep(0.001)
            waits = asyncio.ensure_future(CALLS["delete"](client))  # for its turn, at the rate of the limit
            finished = asyncio.create_task(client.finish_writes())
            await asyncio.sleep(0.01)
            assert not finished.done()
            go_on.set()
            await finished
            assert (sent.done(), waits.done()) == (True, False)
            waits.cancel()
            late = asyncio.ensure_future(CALLS["bind"](client))
            await asyncio.wait([waits, late], timeout=0.05)
            late.cancel()

    asyncio.run(main())
    assert requests == ["POST"]


def test_a_write_is_not_sent_if_it_must_not_be_by_the_time_that_its_connection_is_open() -> None:
    requests: list[Request] = []
    is_allowed = True

    async def handler(request: Request, response: Response) -> None:
        requests.append(request)
        await response.send_json(200, POD)

    async def main() -> None:
        nonlocal is_allowed

        def refuse() -> str | None:
            nonlocal is_allowed
            was_allowed, is_allowed = is_allowed, False  # while the connection is being opened
            return None if was_allowed else "the lease has ended"

        async with http_server(handler) as url:
            for call in (CALLS["bind"], CALLS["delete"]):
                is_allowed = True
                async with KubeClient(load_credentials(master=url), refuse_writes=refuse) as client:
                    with pytest.raises(KubeError, match=r"not sent: the lease has ended$"):
                        await call(client)
                    await client.get(PODS, "ns", "p")

    asyncio.run(main())
    assert [request.method for request in requests] == ["GET", "GET"]


def test_a_limit_that_holds_requests_back_is_logged_once_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    clock = Clock()

    async def sleep(_: float) -> None:
        pass

    async def handler(_: Request, response: Response) -> None:
        await response.send_json(200, POD)

    async def main() -> None:
        limit = TokenBucket(0.4, 1, clock=clock, sleep=sleep)
        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url), limit=limit, clock=clock) as client,
        ):
            for seconds in (0.0, 0.0, 0.0, 10.0, 0.0):
                clock.pass_seconds(seconds)
                await client.get(PODS, "ns", "p")

    asyncio.run(main())
    throttled = [record for record in caplog.records if "throttling" in record.message]
    assert [record.levelname for record in throttled] == ["INFO", "DEBUG", "INFO"]
    assert re.fullmatch(
        r"Waited for 2\.5s due to client-side throttling, not priority and fairness, "
        r"request: GET:http://\S+/api/v1/namespaces/ns/pods/p",
        throttled[0].message,
    )


def test_each_try_counts_for_the_limit() -> None:
    taken: list[float] = []

    async def wait(seconds: float) -> None:
        taken.append(seconds)

    server = PuttingOff((429, "1"), (429, "1"))
    server.call(CALLS["bind"], limit=TokenBucket(1.0, 1, clock=lambda: 0.0, sleep=wait))
    assert taken == [1.0, 2.0]


def test_an_answer_of_another_shape_is_invalid() -> None:
    with pytest.raises(InvalidAnswerError, match="cannot be decoded"):
        answer_to(lambda client: client.get(PODS, "ns", "p"), 200, ["not", "a", "pod"])


@pytest.mark.parametrize("after", ["nothing", "half a body"])
def test_a_connection_that_breaks_is_unreachable(after: str) -> None:
    async def handler(request: Request, response: Response) -> None:
        if after == "half a body":
            await response.send_head(200, {"Content-Length": "100"})
            await response.send_raw(b'{"metadata": ')
        response.cut()

    async def main() -> None:
        async with client_of(handler) as client:
            with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1"):
                await client.get(PODS, "ns", "p")

    asyncio.run(main())


def test_an_api_server_that_is_not_there_is_named_with_the_reason() -> None:
    async def main() -> None:
        async with client_of(lambda request, response: asyncio.sleep(0)) as client:
            pass
        async with client:
            with pytest.raises(UnreachableError, match=r"^http://127\.0\.0\.1:\d+: .*(refused|Connect call failed)"):
                await client.get(PODS, "ns", "p")

    asyncio.run(main())


def test_requests_are_counted_by_the_status_of_the_answer() -> None:
    async def handler(request: Request, response: Response) -> None:
        if request.path.endswith("/cut"):
            response.cut()
        else:
            await response.send_json(404 if request.path.endswith("/gone") else 200, POD)

    failures: dict[str, type[KubeError]] = {"gone": ApiError, "cut": UnreachableError}

    async def main() -> None:
        sent = SentRequests()
        async with http_server(handler) as url, KubeClient(load_credentials(master=url), sent=sent) as client:
            await client.get(PODS, "ns", "p")
            for name, failure in failures.items():
                with pytest.raises(failure):
                    await client.get(PODS, "ns", name)
            await client.patch_unread(PODS, "ns", "p", {})
        [(host, requests)] = sent.hosts.items()
        assert url == f"http://{host}"
        assert requests.answers == {("GET", 200): 1, ("GET", 404): 1, ("GET", 0): 1, ("PATCH", 200): 1}
        assert {method: sum(durations.counts) for method, durations in requests.durations.items()} == {
            "GET": 3,
            "PATCH": 1,
        }

    asyncio.run(main())


def test_a_request_that_its_caller_gave_up_counts_as_not_answered() -> None:
    async def handler(_request: Request, _response: Response) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        sent = SentRequests()
        async with http_server(handler) as url, KubeClient(load_credentials(master=url), sent=sent) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.get(PODS, "ns", "p")
        [requests] = sent.hosts.values()
        assert requests.answers == {("GET", 0): 1}

    asyncio.run(main())


def test_a_request_that_was_not_sent_does_not_count_and_a_watch_is_not_timed() -> None:
    async def handler(_request: Request, response: Response) -> None:
        await response.start_chunks()
        await response.end_chunks()

    async def main() -> None:
        sent = SentRequests()
        reasons = iter([None, "no lease"])  # it is asked again once the connection is open
        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url), sent=sent, refuse_writes=lambda: next(reasons)) as client,
        ):
            with pytest.raises(KubeError, match="no lease"):
                await client.bind("ns", "p", "u", "n")
            async with client.watch(PODS, "42") as events:
                assert [event async for event in events] == []
        [requests] = sent.hosts.values()
        assert requests.answers == {("GET", 200): 1}
        assert list(requests.durations) == ["POST"]

    asyncio.run(main())


def test_no_error_shows_the_password_of_the_servers_url() -> None:
    asked: list[str | None] = []

    async def handler(request: Request, response: Response) -> None:
        asked.append(request.header("authorization"))
        if len(asked) == 1:
            await response.send_json(200, POD)
        else:
            response.cut()

    async def main() -> None:
        async with http_server(handler) as url:
            master = url.replace("//", "//anna:secret@")
            async with KubeClient(load_credentials(master=master)) as client:
                await client.get(PODS, "ns", "p")
                with pytest.raises(UnreachableError, match=f"^{url}: "):
                    await client.get(PODS, "ns", "p")
        async with KubeClient(load_credentials(master=master)) as client:
            with pytest.raises(UnreachableError, match=f"^{url}: .*(refused|Connect call failed)"):
                await client.get(PODS, "ns", "p")

    asyncio.run(main())
    assert asked[0] == "Basic " + base64.b64encode(b"anna:secret").decode()


def test_requests_share_a_connection() -> None:
    sockets = set()

    async def handler(request: Request, response: Response) -> None:
        sockets.add(asyncio.current_task())
        await response.send_json(200, POD)

    async def main() -> None:
        async with client_of(handler) as client:
            for _ in range(3):
                await client.get(PODS, "ns", "p")

    asyncio.run(main())
    assert len(sockets) == 1


def test_impersonates_on_every_request(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: Request, response: Response) -> None:
        seen.extend(pair for pair in request.headers if pair[0].startswith("impersonate"))
        await response.send_json(200, POD)

    async def main() -> None:
        async with http_server(handler) as url:
            user = {"as": "anna", "as-groups": ["dev", "ops"]}
            path = write_kubeconfig(tmp_path / "config", cluster={"server": url + "/prefix"}, user=user)
            async with KubeClient(load_credentials(path)) as client:
                await client.get(PODS, "ns", "p")

    asyncio.run(main())
    assert seen == [("impersonate-user", "anna"), ("impersonate-group", "dev"), ("impersonate-group", "ops")]


class Holding:
    """Answers nothing until all may be answered; `under_way` are the methods of the requests that wait."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self.may_answer = asyncio.Event()

    async def __call__(self, request: Request, response: Response) -> None:
        if "watch" in request.query:
            await response.start_chunks()
            await response.end_chunks()
            return
        self.under_way.append(request.method)
        await self.may_answer.wait()
        await response.send_json(200, POD)

    async def until(self, count: int) -> None:
        """Return once so many requests are under way, and no more come."""
        async with asyncio.timeout(20):
            while len(self.under_way) < count:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert len(self.under_way) == count


def test_a_thousand_writes_may_be_under_way_and_a_read_is_answered_meanwhile() -> None:
    async def main() -> None:
        server = Holding()
        async with client_of(server) as client, asyncio.TaskGroup() as calls:
            for _ in range(1000):
                calls.create_task(client.bind("ns", "p", "u", "n"))
            await server.until(1000)
            calls.create_task(client.get(PODS, "ns", "p"))
            await server.until(1001)
            server.may_answer.set()

    open_files.raise_limit()
    asyncio.run(main())


def test_reads_and_writes_wait_for_their_own_kind_only_and_watches_for_none() -> None:
    async def main() -> None:
        server = Holding()
        async with http_server(server) as url, KubeClient(load_credentials(master=url), most_requests=10) as client:
            async with asyncio.TaskGroup() as calls:
                for _ in range(12):
                    calls.create_task(client.bind("ns", "p", "u", "n"))
                await server.until(8)
                for _ in range(12):
                    calls.create_task(client.get(PODS, "ns", "p"))
                await server.until(10)
                async with client.watch(PODS, "1") as events:
                    assert [event async for event in events] == []
                server.may_answer.set()
            assert Counter(server.under_way) == {"POST": 12, "GET": 12}

    asyncio.run(main())


def test_requests_begin_as_often_as_the_limit_allows() -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def handler(request: Request, response: Response) -> None:
        await response.send_json(200, {"metadata": {"resourceVersion": "1"}})

    async def main() -> None:
        limit = TokenBucket(10.0, 2, clock=lambda: 0.0, sleep=wait)
        async with http_server(handler) as url, KubeClient(load_credentials(master=url), limit=limit) as client:
            await client.bind("ns", "p", "u", "n")
            await client.latest_version(PODS)
            assert client.held_back_seconds() == 0
            await client.get(PODS, "ns", "p")
            assert waits == []
            assert client.held_back_seconds() == pytest.approx(0.1)
            await client.bind("ns", "p", "u", "n")
            assert waits == pytest.approx([0.1])

    asyncio.run(main())


def test_a_request_leaves_nothing_for_the_garbage_collector() -> None:
    async def handler(request: Request, response: Response) -> None:
        if "watch" in request.query:
            await response.start_chunks()
            await response.end_chunks()
        else:
            await response.send_json(200, POD)

    async def main() -> list[object]:
        async with client_of(handler) as client:
            await client.get(PODS, "ns", "p")  # opens the connection
            gc.collect()
            await client.get(PODS, "ns", "p")
            await client.bind("ns", "p", "u", "n")
            async with client.watch(PODS, "1") as events:
                assert [event async for event in events] == []
            gc.set_debug(gc.DEBUG_SAVEALL)  # what it finds is in gc.garbage
            gc.collect()
            return [item for item in gc.garbage if type(item).__module__.startswith(("extender_service", "httptools"))]

    gc.collect()  # what other tests have left
    gc.disable()
    try:
        assert asyncio.run(main()) == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

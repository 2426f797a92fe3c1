"""Requests to extenders: what is sent again, and what is an error."""

import base64
import socket
import time

import pytest

from extender_service.config.types import Extender
from extender_service.kube.connection import posts as module
from extender_service.kube.connection.posts import PostError
from extender_service.scheduler.extenders.access import posts_to
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Request, Response, http_server


class Server:
    """Answers, except that it cuts the connection at each request in `cuts`."""

    def __init__(self, cuts: int = 0) -> None:
        self.asked = 0
        self.cuts = cuts

    async def __call__(self, request: Request, response: Response) -> None:
        self.asked += 1
        if self.asked <= self.cuts:
            response.cut()
        else:
            await response.send_json(200, {"is": request.body.decode()})


async def post(server: Server, *, is_repeatable: bool) -> bytes:
    async with (
        http_server(server) as url,
        posts_to(Extender(url_prefix=f"{url}/v1/"), "extenders[0]", time.time) as posts,
    ):
        return await posts.post("filter", b"x", is_repeatable=is_repeatable)


@in_event_loop
async def test_a_question_is_sent_once_more_if_the_server_closes_the_connection() -> None:
    server = Server(cuts=1)
    assert await post(server, is_repeatable=True) == b'{"is": "x"}'
    assert server.asked == 2


@in_event_loop
async def test_no_question_is_sent_a_third_time_and_no_binding_twice() -> None:
    for is_repeatable, times in ((True, 2), (False, 1)):
        server = Server(cuts=9)
        with pytest.raises(PostError, match="/v1/filter"):
            await post(server, is_repeatable=is_repeatable)
        assert server.asked == times


@in_event_loop
async def test_a_password_in_the_url_is_sent_and_not_shown() -> None:
    asked: list[str | None] = []

    async def refuse(request: Request, response: Response) -> None:
        asked.append(request.header("authorization"))
        await response.send_json(500, {})

    async with http_server(refuse) as url:
        extender = Extender(url_prefix=url.replace("//", "//anna:secret@"))
        async with posts_to(extender, "extenders[0]", time.time) as posts:
            with pytest.raises(PostError, match=f"^failed filter with extender at URL {url}/filter, code 500$"):
                await posts.post("filter", b"x", is_repeatable=True)
    assert asked == ["Basic " + base64.b64encode(b"anna:secret").decode()]
    async with posts_to(extender, "extenders[0]", time.time) as posts:  # it is gone now
        with pytest.raises(PostError, match=f'^Post "{url}/filter": [^@]*$'):
            await posts.post("filter", b"x", is_repeatable=True)


@in_event_loop
async def test_equal_failures_have_equal_texts_also_over_tls() -> None:
    with socket.socket() as taken:  # it does not listen
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
        texts = set[str]()
        for _ in range(2):
            async with posts_to(Extender(url_prefix=url), "extenders[0]", time.time) as posts:
                with pytest.raises(PostError) as raised:
                    await posts.post("filter", b"x", is_repeatable=True)
            texts.add(str(raised.value))
    [text] = texts
    assert text.startswith(f'Post "{url}/filter": Cannot connect to host 127.0.0.1:')
    assert "ssl" not in text


@in_event_loop
async def test_an_answer_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)

    async def flood(request: Request, response: Response) -> None:
        await response.start_chunks()
        for _ in range(100):
            await response.send_chunk(bytes(1 << 16))

    async with http_server(flood) as url, posts_to(Extender(url_prefix=url), "extenders[0]", time.time) as posts:
        with pytest.raises(PostError, match="the answer is larger than 1 MiB"):
            await posts.post("filter", b"x", is_repeatable=True)

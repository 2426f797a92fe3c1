"""What goes wrong between this program and an extender, as errors of httpx."""

import asyncio

import httpx
import pytest

from extender_service.kube.connection.connector import Connector
from extender_service.kube.credentials.lookup import load_credentials
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Handler, Request, Response, http_server


async def ask(handler: Handler, **options: object) -> httpx.Response:
    async with http_server(handler) as url, Connector(load_credentials(master=url)).client() as client:
        return await client.request("POST", url, content=b"{}", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.ReadError),
        (b"SSH-2.0-OpenSSH_9.6\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", httpx.ReadError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n", httpx.TransportError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", httpx.RemoteProtocolError),
    ],
)
@in_event_loop
async def test_what_is_no_http_or_not_all_of_it_is_an_error(answer: bytes, error: type[Exception]) -> None:
    async def handler(request: Request, response: Response) -> None:
        await response.send_raw(answer)
        response.cut()

    with pytest.raises(error):
        await ask(handler)


@in_event_loop
async def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    async def handler(request: Request, response: Response) -> None:
        await asyncio.sleep(3600)

    with pytest.raises(httpx.ReadTimeout):
        await ask(handler, timeout=0.05)


@in_event_loop
async def test_headers_of_one_name_are_all_sent_and_redirects_and_cookies_are_left_alone() -> None:
    requests: list[Request] = []

    async def handler(request: Request, response: Response) -> None:
        requests.append(request)
        await response.send_json(302, {}, {"Set-Cookie": "a=b; Path=/", "Location": "/elsewhere"})

    answer = await ask(handler, headers=[("X-Group", "dev"), ("X-Group", "ops")])
    assert answer.status_code == 302
    (request,) = requests
    assert [value for name, value in request.headers if name == "x-group"] == ["dev", "ops"]

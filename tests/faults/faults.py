"""The faults: each function makes one happen to a scene, and returns when it is over."""

import asyncio
import shutil
from collections.abc import Callable, Mapping

from tests.e2e.support.faulty_proxy import Exchange, Handler, HangUpError
from tests.faults.scene import STALE_LIMIT_SECONDS, Scene

Fault = Callable[[Scene], None]

# So many changes are made between a snapshot and its restoring that versions are not there again when watches are.
_LOST_CHANGES = 300


def watch_cut(scene: Scene) -> None:
    """Connections of watches are closed in the middle of an event."""

    async def cut(exchange: Exchange, line: bytes) -> None:
        scene.hits += 1
        await exchange.send(line[: scene.random.randrange(len(line))])
        raise HangUpError

    with scene.events(cut):
        scene.last(0.3, 0.8)
    scene.cut_watches()  # those of which nothing happens, too


def list_cut(scene: Scene) -> None:
    """Connections are closed in the middle of a list."""

    async def cut(exchange: Exchange) -> None:
        if not exchange.is_list:
            await exchange.pass_on()
            return
        scene.hits += 1
        async with exchange.ask() as response:
            body = await response.aread()
        await exchange.start(200, [(b"Content-Length", b"%d" % len(body))])
        await exchange.send(body[: scene.random.randrange(len(body))])
        raise HangUpError

    with scene.requests(cut):
        scene.expire_watches()
        scene.last(0.3, 0.8)


def silence(scene: Scene) -> None:
    """No byte comes, and no connection is closed; those that were open stay dead afterwards."""
    scene.hits += scene.proxy.fall_silent()
    scene.wait(0.5, 2.0)
    scene.proxy.accept_again()


def long_silence(scene: Scene) -> None:
    """The same for longer than a state may be old: the service must stop answering."""
    scene.hits += scene.proxy.fall_silent()
    scene.wait(STALE_LIMIT_SECONDS + 1.0, STALE_LIMIT_SECONDS + 2.0)
    if scene.service.is_ready():
        scene.complain("the service is ready, though what it knows is too old")
    scene.proxy.accept_again()


def watch_gone(scene: Scene) -> None:
    """Watches are refused with 410."""
    _refuse(scene, lambda exchange: exchange.is_watch, 410, "Expired")


def gone_event(scene: Scene) -> None:
    """Watches end with an ERROR event of 410, some of them again and again."""
    for _ in range(scene.random.randint(1, 3)):
        scene.hits += scene.expire_watches()
        scene.wait(0.1, 0.4)


def page_gone(scene: Scene) -> None:
    """Lists' next pages are refused with 410."""
    with scene.requests(_refusing(scene, lambda exchange: "continue=" in exchange.target, 410, "Expired")):
        scene.expire_watches()
        scene.last(0.3, 0.8)


def throttled(scene: Scene) -> None:
    """All is refused with 429 and Retry-After."""
    _refuse(scene, lambda exchange: True, 429, "TooManyRequests", {"Retry-After": "2"})


def server_errors(scene: Scene) -> None:
    """All is refused with 500, or with 503."""
    code, reason = scene.random.choice([(500, "InternalError"), (503, "ServiceUnavailable")])
    _refuse(scene, lambda exchange: True, code, reason)


def slow_lists(scene: Scene) -> None:
    """Lists begin late, and come in drops."""

    async def drip(exchange: Exchange) -> None:
        if not exchange.is_list:
            await exchange.pass_on()
            return
        scene.hits += 1
        async with exchange.ask() as response:
            body = await response.aread()
        await asyncio.sleep(scene.random.uniform(0.5, 1.5))
        await exchange.start(200, [])
        for at in range(0, len(body), len(body) // 5 + 1):
            await exchange.send(body[at : at + len(body) // 5 + 1])
            await asyncio.sleep(0.2)
        await exchange.end()

    with scene.requests(drip):
        scene.expire_watches()
        scene.last(1.0, 2.0)


def truncated_json(scene: Scene) -> None:
    """Lists and events end too early, though all that carries them is whole."""

    async def truncate_list(exchange: Exchange) -> None:
        if not exchange.is_list:
            await exchange.pass_on()
            return
        scene.hits += 1
        async with exchange.ask() as response:
            body = await response.aread()
        await exchange.answer(200, body[: scene.random.randrange(len(body))])

    async def truncate_event(exchange: Exchange, line: bytes) -> None:
        scene.hits += 1
        await exchange.send(line[: scene.random.randrange(len(line))] + b"\n")

    with scene.requests(truncate_list), scene.events(truncate_event):
        scene.expire_watches()
        scene.last(0.3, 0.8)


def invalid_json(scene: Scene) -> None:
    """Somebody else answers in the API server's place: pages, empty objects, noise."""
    noise = [b"<html><h1>502 Bad Gateway</h1></html>", b"{}", b"[]", b'{"kind":"Status"}', b"\x00\xff\xfe", b"{" * 5000]

    async def answer(exchange: Exchange) -> None:
        if exchange.is_list:
            scene.hits += 1
            await exchange.answer(200, scene.random.choice(noise))
        else:
            await exchange.pass_on()

    async def tell(exchange: Exchange, line: bytes) -> None:
        scene.hits += 1
        await exchange.send(scene.random.choice(noise) + b"\n")

    with scene.requests(answer), scene.events(tell):
        scene.expire_watches()
        scene.last(0.3, 0.8)


def duplicated_events(scene: Scene) -> None:
    """Each event comes two or three times."""

    async def repeat(exchange: Exchange, line: bytes) -> None:
        scene.hits += 1
        await exchange.send(line * scene.random.randint(2, 3))

    with scene.events(repeat):
        scene.last(1.0, 2.0)


def one_kind_late(scene: Scene) -> None:
    """Of one kind, nothing is told for a while: pods before their nodes, or nodes without their pods."""
    late = scene.random.choice(["nodes", "pods"])

    async def hold(exchange: Exchange, line: bytes) -> None:
        scene.hits += exchange.resource == late
        while exchange.resource == late and scene.proxy.on_event is hold:
            await asyncio.sleep(0.02)
        await exchange.send(line)

    with scene.events(hold):
        scene.last(1.0, 2.5)


def no_bookmarks(scene: Scene) -> None:
    """Watches bring no bookmarks, and are then cut."""

    async def leave_out(exchange: Exchange, line: bytes) -> None:
        if b'"BOOKMARK"' in line[:30]:
            scene.hits += 1
        else:
            await exchange.send(line)

    with scene.events(leave_out):
        scene.last(2.0, 4.0)
    scene.cut_watches()


def etcd_restored(scene: Scene) -> None:
    """etcd goes back to a snapshot, and resource versions with it."""
    saved = scene.directory / "saved-etcd"
    with scene.quiet():
        scene.control_plane.save_etcd(saved)
    scene.churn.hurry(_LOST_CHANGES)
    with scene.ticks.paused():
        scene.control_plane.api_server.kill()
        scene.ticks.forget()
    scene.control_plane.restore_etcd(saved)
    scene.hits += 1
    shutil.rmtree(saved)


def api_server_restarted(scene: Scene) -> None:
    """The API server is killed, and started again."""
    scene.control_plane.api_server.kill()
    scene.hits += 1
    scene.wait(0.0, 0.5)
    scene.control_plane.start_api_server()


def token_rotated(scene: Scene) -> None:
    """The service's token is refused from now on; a moment later, its file has another one."""
    scene.access.change_token()
    scene.hits += scene.cut_watches()
    scene.wait(0.0, 1.5)
    scene.access.write_token()


def certificate_rotated(scene: Scene) -> None:
    """The service's client certificate is refused from now on; its files get another one, one after the other."""
    scene.access.change_certificate()
    scene.hits += scene.cut_watches()
    scene.wait(0.0, 1.0)
    scene.access.write_key()
    scene.wait(0.0, 1.0)
    scene.access.write_certificate()


FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        watch_cut,
        list_cut,
        silence,
        long_silence,
        watch_gone,
        gone_event,
        page_gone,
        throttled,
        server_errors,
        slow_lists,
        truncated_json,
        invalid_json,
        duplicated_events,
        one_kind_late,
        no_bookmarks,
        etcd_restored,
        api_server_restarted,
        token_rotated,
        certificate_rotated,
    )
}


def _refusing(
    scene: Scene, which: Callable[[Exchange], bool], status: int, reason: str, headers: Mapping[str, str] | None = None
) -> Handler:
    async def refuse(exchange: Exchange) -> None:
        if which(exchange):
            scene.hits += 1
            await exchange.refuse(status, reason, headers)
        else:
            await exchange.pass_on()

    return refuse


def _refuse(
    scene: Scene,
    which: Callable[[Exchange], bool],
    status: int,
    reason: str,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Refuse some requests for a while, and cut the watches, so that they are opened anew."""
    with scene.requests(_refusing(scene, which, status, reason, headers)):
        scene.cut_watches()
        scene.last(0.3, 0.8)

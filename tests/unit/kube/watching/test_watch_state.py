from functools import partial
from typing import Any

import pytest

from extender_service.kube.watching.watch_state import ServerWatches, WatchState
from tests.support.clock import Clock


class Stream:
    """A watch that has brought what there was at some time."""

    def __init__(self, current_at: float) -> None:
        self.current_at = current_at


def watching(opened_at: float, seen_at: float, server: ServerWatches | None = None) -> WatchState:
    stream: Any = Stream(seen_at)
    return WatchState(heard_at=0.0, watch=stream, opened_at=opened_at, server=server)


def test_a_watch_that_must_show_itself_that_it_lives_is_as_current_as_what_it_brought() -> None:
    server = ServerWatches(Clock())
    state, other = watching(opened_at=100.0, seen_at=900.0), watching(opened_at=100.0, seen_at=999.0)
    for each in (state, other):
        server.add(each, lambda _: None, lambda: None)
    assert state.current_at == 900.0
    state.heard_at = 950.0
    assert state.current_at == 950.0


# It is 1000 s; the kernel would have closed a connection whose other end was gone before 992 s.
@pytest.mark.parametrize(
    ("opened_at", "seen_at", "elsewhere", "current_at"),
    [
        (100.0, 900.0, 999.0, 992.0),  # the connection is open
        (100.0, 900.0, 960.0, 960.0),  # but nothing has come from the server since
        (100.0, 998.0, 999.0, 998.0),  # it has brought something itself
        (995.0, 900.0, 999.0, 900.0),  # it may not have brought all that there was when it was opened
    ],
)
def test_a_quiet_watch_is_as_current_as_its_connection_and_the_server_show(
    opened_at: float, seen_at: float, elsewhere: float, current_at: float
) -> None:
    server = ServerWatches(Clock())
    state = watching(opened_at, seen_at, server)
    for each in (state, watching(opened_at=100.0, seen_at=elsewhere)):
        server.add(each, lambda _: None, lambda: None)
    assert state.current_at == current_at


def test_a_watch_that_is_not_open_is_as_current_as_what_was_heard() -> None:
    server = ServerWatches(Clock())
    state = WatchState(heard_at=900.0, opened_at=100.0, server=server)
    for each in (state, watching(opened_at=100.0, seen_at=999.0)):
        server.add(each, lambda _: None, lambda: None)
    assert state.current_at == 900.0


def test_when_one_watch_is_answered_again_all_are_tried() -> None:
    server = ServerWatches(Clock())
    tried: list[str] = []
    for name in ("nodes", "pods"):
        server.add(watching(opened_at=0.0, seen_at=0.0), lambda _: None, partial(tried.append, name))
    server.answers_again()
    assert tried == ["nodes", "pods"]

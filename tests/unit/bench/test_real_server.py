"""What the watcher of a real API server notes of what it sees."""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import cast

import pytest

from bench.scheduler.real_server import RealApiServer
from tests.e2e.support.programs.control_plane import ControlPlane

MANY = 20_000


@pytest.fixture
def server() -> RealApiServer:
    control_plane = SimpleNamespace(user_kubeconfig=lambda user: Path(), api=None)
    return RealApiServer(cast(ControlPlane, control_plane), "1", {"running"})


@pytest.fixture
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_the_first_write_may_be_about_a_victim(server: RealApiServer) -> None:
    server.note_pod("running", is_new=False)
    victim = server.counts()
    server.note_pod("pending", is_new=True)

    assert victim.bound == 0 < victim.first_write
    counts = server.counts()
    assert (counts.bound, counts.first_write) == (1, victim.first_write)
    assert counts.first_write <= counts.last_binding


def test_the_first_write_may_be_an_event_about_a_failed_attempt(server: RealApiServer) -> None:
    server.note_event("FailedScheduling")
    failed = server.counts()
    server.note_event("Scheduled")

    assert failed.first_write > 0
    counts = server.counts()
    assert (counts.events, counts.other_events, counts.first_write) == (1, 1, failed.first_write)


def test_a_running_pod_that_comes_again_is_not_bound(server: RealApiServer) -> None:
    server.note_pod("running", is_new=False)
    server.note_pod("running", is_new=True)
    assert server.counts().bound == 0
    assert server.bound_pods() == []


@pytest.mark.usefixtures("_threads_take_turns_often")
def test_bound_pods_can_be_read_while_more_are_bound(server: RealApiServer) -> None:
    def bind() -> None:
        for number in range(MANY):
            server.note_pod(f"pod-{number}", is_new=True)

    watcher = Thread(target=bind)
    watcher.start()
    while watcher.is_alive():
        server.bound_pods()
    assert len(server.bound_pods()) == MANY

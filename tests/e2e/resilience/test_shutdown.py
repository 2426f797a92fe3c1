"""Told to stop in the middle of bindings: they finish or are undone, and the process is gone in time."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.support.held_bindings import bind_and_hang_up, binding_of, events_of, holding
from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until


def test_a_binding_that_does_not_finish_is_undone_and_its_caller_told(
    empty_cluster: ControlPlane, tmp_path: Path
) -> None:
    [_, wanted] = empty_cluster.api.create(node("a"), pod("p"))
    with (
        holding(empty_cluster, tmp_path, ["--shutdown-grace-period=2s"]) as (service, _),
        ThreadPoolExecutor() as pool,
    ):
        answer = pool.submit(service.call, "bind", binding_of(wanted, "a"))
        wait_until(lambda: is_binding(service), "the binding")

        assert service.process.stop() == 0
        assert answer.result() == {"Error": "binding default/p to a: extender-service was stopped"}
    assert "nodeName" not in empty_cluster.api.get("Pod", "p", namespace="default")["spec"]
    assert events_of(empty_cluster, wanted) == []  # the caller tells


def test_nobody_hears_of_a_binding_that_is_undone_but_there_is_an_event(
    empty_cluster: ControlPlane, tmp_path: Path
) -> None:
    [_, wanted] = empty_cluster.api.create(node("a"), pod("p"))
    with holding(empty_cluster, tmp_path, ["--shutdown-grace-period=2s"]) as (service, _):
        bind_and_hang_up(service, wanted)
        wait_until(lambda: is_binding(service), "the binding")

        assert service.process.stop() == 0
    [event] = events_of(empty_cluster, wanted)
    assert (event["reason"], event["note"]) == (
        "FailedScheduling",
        "binding default/p to a: extender-service was stopped",
    )


def test_a_binding_that_finishes_in_time_is_waited_for_though_nobody_hears(
    empty_cluster: ControlPlane, tmp_path: Path
) -> None:
    [_, wanted] = empty_cluster.api.create(node("a"), pod("p"))
    with holding(empty_cluster, tmp_path) as (service, go_on), ThreadPoolExecutor() as pool:
        bind_and_hang_up(service, wanted)
        wait_until(lambda: is_binding(service), "the binding")
        exit_code = pool.submit(service.process.stop)
        wait_until(lambda: not service.is_ready(), "the service to take no more calls")
        go_on.touch()

        assert exit_code.result() == 0
    assert empty_cluster.api.get("Pod", "p", namespace="default")["spec"]["nodeName"] == "a"
    [event] = events_of(empty_cluster, wanted)
    assert event["reason"] == "Scheduled"


def test_a_second_signal_ends_it_at_once(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    [_, wanted] = empty_cluster.api.create(node("a"), pod("p"))
    with holding(empty_cluster, tmp_path, ["--shutdown-grace-period=1h"]) as (service, _):
        bind_and_hang_up(service, wanted)
        wait_until(lambda: is_binding(service), "the binding")
        os.kill(service.process.pid, signal.SIGTERM)
        wait_until(lambda: not service.is_ready(), "the service to stop")

        assert service.process.stop() == -signal.SIGTERM


def is_binding(service: Service) -> bool:
    return service.metric("scheduler_scheduler_cache_size", type="assumed_pods") == 1

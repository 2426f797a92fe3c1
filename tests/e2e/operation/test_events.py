"""What users see of a pod's events: each outcome once, from kube-scheduler, or from the service if that cannot know."""

import socket
from functools import partial
from pathlib import Path

from tests.e2e.support.held_bindings import bind_and_hang_up, events_of, holding
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until


def test_a_pod_bound_for_kube_scheduler_has_one_event(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(node("a"))
    with (
        Service(tmp_path, empty_cluster.kubeconfig) as service,
        schedulers.running(empty_cluster, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        [bound] = api.create(pod("heard"))
        [event] = wait_until(lambda: events_of(empty_cluster, bound), "the event")

        assert (event["reason"], event["reportingController"]) == ("Scheduled", "default-scheduler")
        assert service.requests("bind", "ok") == 1
        assert service.process.stop() == 0  # whatever it had to tell is written by now
        assert events_of(empty_cluster, bound) == [event]


def test_a_pod_bound_after_kube_scheduler_was_killed_has_one_event(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(node("a"))
    with holding(empty_cluster, tmp_path) as (service, go_on):
        with schedulers.running(empty_cluster, schedulers.replacing(service.url, node_cache_capable=True)):
            [bound] = api.create(pod("unheard"))
            wait_until(lambda: service.metric("scheduler_scheduler_cache_size", type="assumed_pods"), "the binding")
        go_on.touch()
        [event] = wait_until(lambda: events_of(empty_cluster, bound), "the event")

        assert api.get("Pod", "unheard", namespace="default")["spec"]["nodeName"] == "a"
        assert event["regarding"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "unheard",
            "uid": bound["metadata"]["uid"],
        }
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["note"] == "Successfully assigned default/unheard to a"
        assert event["reportingController"] == "extender-service"
        assert event["reportingInstance"] == f"extender-service-{socket.gethostname()}"
        assert service.metric("extender_service_events_total", result="written") == 1


def test_bindings_that_fail_again_and_again_unheard_are_one_event(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    [_, refused] = empty_cluster.api.create(node("a"), pod("refused", labels={"refused": ""}))
    with holding(empty_cluster, tmp_path) as (service, go_on):
        for number in range(1, 4):
            bind_and_hang_up(service, refused)
            go_on.touch()
            wait_until(partial(has_failed, service, number), "the failure")
            go_on.unlink()
        [event] = wait_until(lambda: series_of(empty_cluster, refused), "the series")

        assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
        assert event["note"] == 'running PreBind plugin "HeldPreBind": the pod wanted it so'
        assert event["series"]["count"] == 2
        # The count is written again when the series ends, or the service.
        assert service.process.stop() == 0
        [event] = events_of(empty_cluster, refused)
        assert event["series"]["count"] == 3


def has_failed(service: Service, times: int) -> bool:
    return service.requests("bind", "error") == times


def series_of(control_plane: ControlPlane, regarding: Object) -> list[Object]:
    return [event for event in events_of(control_plane, regarding) if event.get("series")]

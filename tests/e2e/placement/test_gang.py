"""Pods of a gang wait for each other in Permit, by examples/plugins/gang.py; kube-scheduler waits for their binding."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.plugins.gang import GANG, SIZE, Gang
from tests.e2e.support.api import API
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until

# Longer than kube-scheduler waits for an answer, unless it is told to wait longer.
LONG_SECONDS = 60
SHORT_SECONDS = 2


@pytest.mark.parametrize("http_timeout", ["90s", "1s"], ids=["one answer", "kube-scheduler gives up and asks again"])
def test_a_pod_waits_until_its_mate_is_there(empty_cluster: ControlPlane, tmp_path: Path, http_timeout: str) -> None:
    api = empty_cluster.api
    api.create(node("a"))
    with placing(empty_cluster, tmp_path, LONG_SECONDS, http_timeout=http_timeout) as service:
        api.create(member("first", "pair"))
        times_asked = 1 if http_timeout == "90s" else 3
        wait_until(lambda: times_decided(service, "first") >= times_asked, "the first pod to wait")
        api.create(pod("of-no-gang"))
        wait_until(lambda: nodes_of(api) == {"first": "", "of-no-gang": "a"}, "the pod of no gang to be bound")

        api.create(member("second", "pair"))
        # At first, the two may hold their places in turn.
        wait_until(lambda: all(nodes_of(api).values()), "the gang to be bound", 60)
        assert service.requests("bind", "error") == 0


def test_a_gang_whose_mate_never_comes_gives_its_place_back_and_is_tried_again(
    empty_cluster: ControlPlane, tmp_path: Path
) -> None:
    api = empty_cluster.api
    api.create(node("a", cpu="1"))
    with placing(empty_cluster, tmp_path, SHORT_SECONDS) as service:
        api.create(member("lonely", "pair"))
        wait_until(lambda: times_decided(service, "lonely"), "the lonely pod to hold the place")
        api.create(pod("other", requests={"cpu": "1"}))
        wait_until(lambda: nodes_of(api)["other"], "the other pod to get the place")
        timed_out = "rejected due to timeout after waiting 2s at plugin Gang"
        wait_until(lambda: timed_out in why_unbound(api, "lonely"), "kube-scheduler to say why")

        # It is tried again whenever there is room, and still runs only with its mate.
        api.delete(api.get("Pod", "other", namespace="default"))
        wait_until(lambda: times_decided(service, "lonely") >= 2, "the lonely pod to hold the place again")
        api.create(node("b", cpu="1"), member("mate", "pair"))
        # At first, the two may hold their places in turn.
        wait_until(lambda: all(nodes_of(api).values()), "the gang to be bound", 60)


@pytest.mark.parametrize("kept", [[], ["NodeResourcesFit"]], ids=["no filter in-tree", "one filter in-tree"])
def test_of_two_gangs_where_one_fits_one_runs_whole(
    empty_cluster: ControlPlane, tmp_path: Path, kept: list[str]
) -> None:
    api = empty_cluster.api
    api.create(node("a", cpu="1"), node("b", cpu="1"))
    with placing(empty_cluster, tmp_path, SHORT_SECONDS, kept=kept) as service:
        api.create(member("red-1", "red"), member("blue-1", "blue"))
        # Each holds half of what the other needs.
        wait_until(lambda: all(times_decided(service, name) for name in ("red-1", "blue-1")), "both to hold a place")
        api.create(member("red-2", "red"), member("blue-2", "blue"))

        first = wait_until(lambda: whole(api, 1), "one of the gangs to be bound", 60)
        api.delete(*(each for each in api.list_all("Pod") if each["metadata"]["labels"][GANG] in first))
        second = wait_until(lambda: whole(api, 1), "the other one to be bound", 60)
        assert first | second == {"red", "blue"}


def test_many_gangs_never_run_by_halves(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    api = empty_cluster.api
    api.create(*(node(name, cpu="2") for name in "abc"))
    with placing(empty_cluster, tmp_path, SHORT_SECONDS, kept=["NodeResourcesFit"]):
        # One of each gang after the other.
        for number in range(3):
            api.create(*(member(f"{gang}-{number}", gang, size=3) for gang in ("red", "blue", "green", "grey")))

        running = wait_until(lambda: whole(api, 2), "two of the gangs to be bound", 120)
        assert len(running) == 2


@contextmanager
def placing(
    control_plane: ControlPlane,
    directory: Path,
    timeout_seconds: int,
    *,
    http_timeout: str = "30s",
    kept: list[str] | None = None,
) -> Iterator[Service]:
    """The service with the plugin, and a kube-scheduler that decides nothing itself, but for the filters `kept`."""
    configuration: Object = {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}]}},
                "pluginConfig": [{"name": "Gang", "args": {"timeoutSeconds": timeout_seconds}}],
            }
        ]
    }
    with Service(directory, control_plane.kubeconfig, configuration=configuration, plugins=[Gang]) as service:
        scheduler = schedulers.replacing(service.url, node_cache_capable=True)
        scheduler["extenders"][0]["httpTimeout"] = http_timeout
        for point in ("preFilter", "filter"):
            scheduler["profiles"][0]["plugins"][point]["enabled"] = [{"name": name} for name in kept or []]
        with schedulers.running(control_plane, scheduler):
            yield service


def member(name: str, gang: str, size: int = 2) -> Object:
    return pod(name, labels={GANG: gang, SIZE: str(size)}, requests={"cpu": "1"})


def nodes_of(api: API) -> dict[str, str]:
    """The node of each pod, by the pod's name."""
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in api.list_all("Pod")}


def why_unbound(api: API, name: str) -> str:
    """What kube-scheduler says of a pod."""
    conditions = api.get("Pod", name, namespace="default")["status"].get("conditions", [])
    return " ".join(each["message"] for each in conditions if each["type"] == "PodScheduled")


def times_decided(service: Service, name: str) -> int:
    """How often the service chose a node for a pod, or said again which one it is being bound to."""
    return sum(line["pod"] == f"default/{name}" and "node" in line for line in service.decisions("filter"))


def whole(api: API, count: int) -> set[str]:
    """The gangs that run, if they are so many and nothing but whole gangs runs."""
    bound: dict[str, list[bool]] = {}
    for each in api.list_all("Pod"):
        bound.setdefault(each["metadata"]["labels"][GANG], []).append("nodeName" in each["spec"])
    running = {gang for gang, members in bound.items() if any(members)}
    return running if len(running) == count and all(all(bound[gang]) for gang in running) else set()

from typing import Any

import msgspec
import pytest

from extender_service.cluster.amounts import footprint
from extender_service.cluster.amounts.footprint import requests_and_ports
from extender_service.cluster.amounts.requests import (
    OLDEST_REQUEST_RULES,
    request_rules,
    request_shape,
    total_requests,
)
from extender_service.config.rules import rules_of
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, PodResources, PodSpec
from tests.support.memory import MIB, kept_bytes
from tests.support.objects import make_container, watched


@pytest.mark.parametrize("number_of_containers", [1, 100])
def test_what_a_pod_takes_is_told_of_all_its_containers(number_of_containers: int) -> None:
    containers = (make_container({"cpu": "10m"}, ports=[80]),) * number_of_containers
    init_containers = (make_container({"memory": "1Gi"}, ports=[53]),)
    spec = PodSpec(containers=containers, init_containers=init_containers, overhead={"cpu": "1"})
    requests, ports = requests_and_ports(Pod(spec=spec), OLDEST_REQUEST_RULES)
    assert dict(requests.amounts) == {"cpu": 1000 + 10 * number_of_containers, "memory": 1 << 30}
    assert ports == {("0.0.0.0", "TCP", 80)}


def test_of_pods_that_request_much_nothing_is_kept() -> None:
    def come_and_go() -> None:
        for pod in range(10):
            requests = {f"example.com/resource-{pod}-{number}": str(1000 + number) for number in range(95)}
            spec = PodSpec(containers=tuple(make_container(dict(requests)) for _ in range(380)))
            assert len(requests_and_ports(Pod(spec=spec), OLDEST_REQUEST_RULES)[0].amounts) == 95
            assert len(total_requests(request_shape(spec), fill_missing=True)) == 97

    assert kept_bytes(come_and_go) < MIB


def test_a_running_pod_with_resources_of_its_own_counts_as_its_containers_request_and_that_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(footprint, "_logged", set())
    for cpu in ("3", "4"):
        spec = PodSpec(containers=(make_container({"cpu": "1"}),), resources=PodResources(requests={"cpu": cpu}))
        for pod in (Pod(spec=spec), watched(Pod(spec=spec))):
            taken, _ = requests_and_ports(pod, OLDEST_REQUEST_RULES)
            assert dict(taken.amounts) == {"cpu": 1000}
    assert [record.getMessage() for record in caplog.records] == [
        "pods have spec.resources, which do not count in the release that is followed, only containers' do"
    ]


@pytest.mark.parametrize("resources", [None, PodResources()])
def test_nothing_is_logged_of_pods_whose_containers_request_alone(
    resources: PodResources | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(footprint, "_logged", set())
    spec = PodSpec(containers=(make_container({"cpu": "1"}),), resources=resources)
    requests_and_ports(watched(Pod(spec=spec)), OLDEST_REQUEST_RULES)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("minor", "ports", "cpu_milli", "memory_bytes"),
    [(31, {443}, 500, 200 << 20), (32, {443}, 600, 400 << 20), (33, {80, 443}, 600, 400 << 20)],
)
def test_what_sidecars_count_as_depends_on_the_release(
    minor: int, ports: set[int], cpu_milli: int, memory_bytes: int
) -> None:
    sidecar = make_container(ports=[80], restart_policy="Always")
    spec = PodSpec(containers=(make_container({"cpu": "500m"}, ports=[443]),), init_containers=(sidecar,))
    requests, taken = requests_and_ports(Pod(spec=spec), request_rules(rules_of(minor)))
    assert {port for _, _, port in taken} == ports
    assert (requests.nonzero_cpu_milli, requests.nonzero_memory_bytes) == (cpu_milli, memory_bytes)
    assert requests.amounts == (("cpu", 500),)


def milli_cpu(minor: int, status: dict[str, Any], *, level: str = "", sidecar: bool = True) -> int:
    """What a pod takes that requests 1 for "main", and 100m for the init container "side"."""
    spec: dict[str, Any] = {
        "nodeName": "a",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {
                "name": "side",
                "resources": {"requests": {"cpu": "100m"}},
                **({"restartPolicy": "Always"} if sidecar else {}),
            }
        ],
    }
    if level:
        spec["resources"] = {"requests": {"cpu": level}}
    pod = msgspec.convert({"spec": spec, "status": status}, Pod)
    rules = request_rules(rules_of(minor))
    taken = [dict(requests_and_ports(each, rules)[0].amounts).get("cpu", 0) for each in (pod, watched(pod))]
    assert taken[0] == taken[1]
    return taken[0]


def reported(name: str, *, allocated: str = "", actual: str = "") -> dict[str, Any]:
    return {
        "name": name,
        **({"allocatedResources": {"cpu": allocated}} if allocated else {}),
        **({"resources": {"requests": {"cpu": actual}} if actual != "none" else {}} if actual else {}),
    }


def main(**amounts: str) -> dict[str, Any]:
    return {"containerStatuses": [reported("main", **amounts)]}


def side(**amounts: str) -> dict[str, Any]:
    return {"initContainerStatuses": [reported("side", **amounts)]}


DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("status", "in_1_32", "in_1_33", "in_1_36", "in_1_37"),
    [
        ({}, 1100, 1100, 1100, 1100),
        (main(allocated="2", actual="500m"), 1100, 2100, 2100, 2100),
        (main(allocated="500m", actual="2"), 1100, 2100, 2100, 2100),
        (main(allocated="500m", actual="500m"), 1100, 1100, 1100, 1100),
        # Up to 1.36, what is allocated counts only if the kubelet reports the actual resources, too.
        (main(allocated="2"), 1100, 1100, 1100, 2100),
        (main(allocated="2", actual="none"), 1100, 2100, 2100, 2100),
        (main(allocated="500m", actual="400m") | DEFERRED, 1100, 1100, 1100, 1100),
        (main(allocated="500m", actual="400m") | INFEASIBLE, 1100, 600, 600, 500),
        (main(allocated="500m", actual="400m") | side(allocated="50m") | INFEASIBLE, 1100, 600, 600, 550),
        (INFEASIBLE, 1100, 1100, 1100, 0),
        # Since 1.37 the largest of three sums counts, not the sum of what is largest of each container.
        (main(allocated="2", actual="500m") | side(allocated="50m", actual="1"), 1100, 3000, 3000, 2050),
    ],
)
def test_a_running_container_counts_with_what_its_kubelet_reports_if_that_is_more(
    status: dict[str, Any], in_1_32: int, in_1_33: int, in_1_36: int, in_1_37: int
) -> None:
    taken = [milli_cpu(minor, status) for minor in (32, 33, 36, 37)]
    assert taken == [in_1_32, in_1_33, in_1_36, in_1_37]


@pytest.mark.parametrize(("minor", "taken"), [(33, 1000), (36, 1000), (37, 3000)])
def test_an_init_container_that_runs_alone_counts_with_what_is_reported_since_1_37(minor: int, taken: int) -> None:
    assert milli_cpu(minor, side(allocated="3", actual="3"), sidecar=False) == taken


@pytest.mark.parametrize(
    ("status", "in_1_34", "in_1_36", "in_1_37"),
    [
        ({}, 1500, 1500, 1500),
        ({"resources": {"requests": {"cpu": "2"}}}, 1500, 2000, 2000),
        ({"resources": {}, "allocatedResources": {"cpu": "3"}}, 1500, 3000, 3000),
        ({"allocatedResources": {"cpu": "3"}}, 1500, 1500, 1500),
        ({"resources": {"requests": {"cpu": "800m"}}} | DEFERRED, 1500, 1500, 1500),
        ({"resources": {"requests": {"cpu": "800m"}}} | INFEASIBLE, 1500, 800, 800),
        (
            {"resources": {}, "allocatedResources": {}} | main(allocated="700m", actual="none") | INFEASIBLE,
            1500,
            0,
            700,
        ),
    ],
)
def test_a_running_pod_that_requests_as_a_whole_counts_with_what_its_kubelet_reports_since_1_36(
    status: dict[str, Any], in_1_34: int, in_1_36: int, in_1_37: int
) -> None:
    assert [milli_cpu(minor, status, level="1500m") for minor in (34, 36, 37)] == [in_1_34, in_1_36, in_1_37]


def test_a_malformed_quantity_in_a_status_is_named() -> None:
    with pytest.raises(QuantityError, match="lots"):
        milli_cpu(37, main(allocated="lots"))

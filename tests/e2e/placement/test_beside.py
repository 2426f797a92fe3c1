"""A kube-scheduler with its default plugins, and the service beside it, which packs where kube-scheduler spreads."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.support.api import API
from tests.e2e.support.mixed_cluster import mixed_nodes, mixed_pods
from tests.e2e.support.objects import node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

# NodeResourcesFit alone, the other way round: kube-scheduler's own prefers the nodes with the most room left.
ALONE = {"enabled": [{"name": "NodeResourcesFit"}], "disabled": [{"name": "*"}]}
MOST_ALLOCATED = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
PACKING = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": dict.fromkeys(schedulers.DECISION_POINTS, ALONE),
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": MOST_ALLOCATED}}],
        }
    ]
}
# Kube-scheduler's default plugins give a node up to 1,200 points; the service up to 10 times 10 times this.
OUTWEIGHING = 100


@both_releases
@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["names", "whole nodes"])
def test_every_pod_is_bound_where_both_allow(
    empty_cluster: ControlPlane, tmp_path: Path, minor: int, node_cache_capable: bool
) -> None:
    api, release = empty_cluster.api, deciding_as(minor)
    api.create(*mixed_nodes())
    with (
        Service(tmp_path, empty_cluster.kubeconfig, mode="beside", configuration=PACKING, options=[release]) as service,
        schedulers.running(empty_cluster, schedulers.beside(service.url, node_cache_capable=node_cache_capable)),
    ):
        api.create(*mixed_pods())
        wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)

        pods = api.list_all("Pod")
        assert len(pods) == 500
        assert violations(api.list_all("Node"), pods) == []
        # Kube-scheduler asks an extender only where its own plugins leave more than one node to choose from.
        assert service.requests("filter", "ok") == 500
        assert service.requests("prioritize", "ok") > 400
        assert service.requests("bind", "ok") == 0


@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["names", "whole nodes"])
def test_priorities_decide_between_equal_nodes(
    empty_cluster: ControlPlane, tmp_path: Path, node_cache_capable: bool
) -> None:
    api = empty_cluster.api
    api.create(*(node(f"equal-{number}", cpu="4", memory="4Gi") for number in range(8)))

    with Service(tmp_path, empty_cluster.kubeconfig, mode="beside", configuration=PACKING) as service:
        with schedulers.running(empty_cluster, {"profiles": [{"schedulerName": "default-scheduler"}]}):
            alone = nodes_of_eight(api, service, "alone")
        configuration = schedulers.beside(service.url, node_cache_capable=node_cache_capable, weight=OUTWEIGHING)
        with schedulers.running(empty_cluster, configuration):
            together = nodes_of_eight(api, service, "together")

    assert sorted(alone.values()) == [1] * 8
    assert sorted(together.values()) == [4, 4]


def nodes_of_eight(api: API, service: Service, kind: str) -> Counter[str]:
    """Let eight pods be bound one by one, and delete them: how many were on each node."""

    def service_sees(count: int) -> bool:
        return service.metric("scheduler_scheduler_cache_size", type="pods") == count

    for number in range(8):
        api.create(pod(f"{kind}-{number}", requests={"cpu": "1", "memory": "1Gi"}))
        wait_until(partial(service_sees, number + 1), "the service to see the pod bound")
    bound = api.list_all("Pod")
    api.delete(*bound)
    wait_until(partial(service_sees, 0), "the service to see the pods gone")
    return Counter(found["spec"]["nodeName"] for found in bound)

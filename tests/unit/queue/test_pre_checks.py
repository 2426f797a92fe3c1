from typing import Any

import msgspec
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import Pod, Taint, Toleration
from extender_service.queue.pre_checks import pre_check_for_node
from tests.support.objects import cluster_of, make_node, make_pod

NODE = make_node(
    "node",
    {"cpu": "2", "memory": "4Gi", "pods": "3", "example.com/gpu": "1"},
    labels={"zone": "a"},
    taints=[
        Taint("dedicated", "ml", "NoSchedule"),
        Taint("soft", "", "PreferNoSchedule"),
        Taint("hard", "", "NoExecute"),
    ],
)
ML = Toleration(key="dedicated", value="ml")


def cluster(*pods: Pod) -> Cluster:
    return cluster_of([NODE], pods)


def pod(requests: dict[str, Any] | None = None, ports: tuple[int, ...] = (), **spec: Any) -> Pod:
    made = make_pod("new", requests=requests, ports=ports)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **{"tolerations": (ML,), **spec}))


RUNNING = make_pod("running", "node", requests={"cpu": "1500m"}, ports=[80])


@pytest.mark.parametrize(
    ("candidate", "passes"),
    [
        (pod(), True),
        (pod({"cpu": "500m", "memory": "1Gi"}), True),
        (pod({"cpu": "501m"}), False),
        (pod({"example.com/gpu": "1"}), True),
        (pod({"example.com/gpu": "2"}), False),
        (pod({"example.com/other": "1"}), False),
        (pod({"example.com/other": "0"}), True),
        (pod({"cpu": "much"}), True),
        (pod(ports=(80,)), False),
        (pod(ports=(81,)), True),
        (pod(node_name="node"), True),
        (pod(node_name="other"), False),
        (pod(node_selector={"zone": "a"}), True),
        (pod(node_selector={"zone": "b"}), False),
        (pod(tolerations=()), False),
    ],
)
def test_a_node_can_help_pods_that_it_has_room_for_and_that_want_it(candidate: Pod, *, passes: bool) -> None:
    assert pre_check_for_node(cluster(RUNNING), "node")(candidate) is passes


def test_a_node_with_as_many_pods_as_it_takes_helps_none() -> None:
    pods = [make_pod(f"p{number}", "node") for number in range(3)]
    assert pre_check_for_node(cluster(*pods[:2]), "node")(pod())
    assert not pre_check_for_node(cluster(*pods), "node")(pod())


def test_a_node_that_does_not_exist_helps_none() -> None:
    assert not pre_check_for_node(cluster(), "gone")(pod())

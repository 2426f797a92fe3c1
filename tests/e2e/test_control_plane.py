"""The control plane that the other end-to-end tests stand on."""

from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.waiting import wait_until


def node_of(control_plane: ControlPlane, name: str) -> str | None:
    bound_to: str | None = control_plane.api.get("Pod", name, namespace="default")["spec"].get("nodeName")
    return bound_to


def test_stock_kube_scheduler_binds_a_pod_where_it_fits(control_plane: ControlPlane) -> None:
    control_plane.api.create(node("small", cpu="1"), node("large", cpu="8"))
    control_plane.api.create(pod("demanding", requests={"cpu": "4"}))

    control_plane.start_scheduler({"profiles": [{"schedulerName": "default-scheduler"}]})

    assert wait_until(lambda: node_of(control_plane, "demanding"), "the pod's node") == "large"

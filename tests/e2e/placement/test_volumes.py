"""The service binds claims that wait for a pod; kube-scheduler's own VolumeBinding is off."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.programs.volume_controllers import (
    Provisioner,
    claim,
    is_available,
    node_of,
    storage_class,
    volume_controllers,
    volume_on,
)
from tests.e2e.support.waiting import wait_until

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NODES = ("a", "b", "c")


def test_pods_get_a_volume_each_of_those_that_exist(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = control_plane.api
    api.create(*map(node, NODES), storage_class("found", provisioner="kubernetes.io/no-provisioner"))
    api.create(*(volume_on(name, f"{name}-{number}", "found") for name in NODES for number in range(4)))
    with volume_controllers(api), placing(control_plane, tmp_path) as service:
        wait_until(lambda: all(map(is_available, api.list_all("PersistentVolume"))), "volumes")
        create_pods(control_plane, 12, "found")
        wait_until_bound(control_plane)

        volumes = volumes_of_pods(control_plane)
        assert len({volume["metadata"]["name"] for volume in volumes.values()}) == 12
        assert {node_of(volume) for volume in volumes.values()} == {*NODES}
        assert all(volume["metadata"]["annotations"][BOUND_BY_CONTROLLER] == "yes" for volume in volumes.values())
        # No two were given the same: that would have shown when it was written.
        assert (service.requests("bind", "ok"), service.requests("bind", "error")) == (12, 0)


def test_pods_get_volumes_that_are_made_for_them(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = control_plane.api
    api.create(*map(node, NODES), storage_class("made"))
    with volume_controllers(api), placing(control_plane, tmp_path) as service:
        create_pods(control_plane, 12, "made")
        wait_until_bound(control_plane)

        assert len(volumes_of_pods(control_plane)) == 12
        assert (service.requests("bind", "ok"), service.requests("bind", "error")) == (12, 0)


def test_where_a_volume_cannot_be_made_the_pod_goes_elsewhere(control_plane: ControlPlane, tmp_path: Path) -> None:
    failing: list[str] = []

    def provisioner(_: Object, node_name: str) -> bool:
        failing.append(node_name)
        return node_name != failing[0]

    with one_pod(control_plane, tmp_path, provisioner) as service:
        wait_until_bound(control_plane)

        (volume,) = volumes_of_pods(control_plane).values()
        assert node_of(volume) != failing[0]
        assert 'provisioning failed for PVC \\"data-0\\"' in service.log.read_text()


def test_a_pod_whose_volume_takes_too_long_is_tried_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    slow: list[str] = []
    timed_out = "binding volumes: context deadline exceeded: default/data-0 not bound within 1 s"

    def provisioner(_: Object, node_name: str) -> bool | None:
        slow.append(node_name)
        if node_name != slow[0]:
            return True
        # As long as it tries, the claim stays with the node.
        return False if timed_out in (tmp_path / "extender-service.log").read_text() else None

    with one_pod(control_plane, tmp_path, provisioner) as service:
        wait_until_bound(control_plane)

        (volume,) = volumes_of_pods(control_plane).values()
        assert node_of(volume) != slow[0]
        assert timed_out in service.log.read_text()


@contextmanager
def placing(control_plane: ControlPlane, directory: Path, bind_timeout_seconds: int = 600) -> Iterator[Service]:
    """The service and a kube-scheduler that decides nothing itself."""
    arguments = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": bind_timeout_seconds}}
    configuration = {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [arguments]}]}
    with (
        Service(directory, control_plane.kubeconfig, configuration=configuration) as service,
        schedulers.running(control_plane, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        yield service


@contextmanager
def one_pod(control_plane: ControlPlane, directory: Path, provisioner: Provisioner) -> Iterator[Service]:
    """One pod, whose claim has a second to be bound."""
    control_plane.api.create(*map(node, NODES), storage_class("made"))
    with volume_controllers(control_plane.api, provisioner), placing(control_plane, directory, 1) as service:
        create_pods(control_plane, 1, "made")
        yield service


def create_pods(control_plane: ControlPlane, count: int, class_name: str) -> None:
    """Pods with a claim each, which has the pod's number."""
    control_plane.api.create(*(claim(f"data-{number}", class_name) for number in range(count)))
    control_plane.api.create(
        *(
            pod(f"web-{number}", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": f"data-{number}"}}])
            for number in range(count)
        )
    )


def wait_until_bound(control_plane: ControlPlane) -> None:
    api = control_plane.api
    wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)


def volumes_of_pods(control_plane: ControlPlane) -> dict[str, Object]:
    """The volume of each pod, by the pod's name: kept for its claim, and within reach of its node."""
    api = control_plane.api
    volumes = {each["metadata"]["name"]: each for each in api.list_all("PersistentVolume")}
    claims = {each["metadata"]["name"]: each for each in api.list_all("PersistentVolumeClaim")}
    found: dict[str, Object] = {}
    for each in api.list_all("Pod"):
        name = each["metadata"]["name"]
        its_claim = claims[name.replace("web", "data")]
        volume = volumes[its_claim["spec"]["volumeName"]]
        assert volume["spec"]["claimRef"]["uid"] == its_claim["metadata"]["uid"]
        assert node_of(volume) == each["spec"]["nodeName"]
        found[name] = volume
    return found

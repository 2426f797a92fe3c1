"""What a cluster's controllers do about volumes, as far as binding claims goes: there is no kube-controller-manager."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object

DRIVER = "csi.example.com"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"

# The volume controller notes this on claims before their provisioner looks at them.
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_POLL_SECONDS = 0.1

# Told a claim and the node selected for it: True to make a volume, False to give up, None to take more time.
Provisioner = Callable[[Object, str], bool | None]


@contextmanager
def volume_controllers(api: API, provisioner: Provisioner = lambda claim, node: True) -> Iterator[None]:
    """Make volumes available, bind the claims that volumes are kept for, and make volumes where nodes are selected.

    Fails in the end if one of them has failed.
    """
    stop, failures = threading.Event(), list[Exception]()

    def run() -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                _look_after_volumes(api)
                _look_after_claims(api, provisioner)
            except APIError as error:
                failures.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def storage_class(name: str, *, provisioner: str = DRIVER) -> Object:
    """A class whose claims wait for a pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, class_name: str) -> Object:
    """A claim in namespace default."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume_on(node: str, name: str, class_name: str, **spec: Any) -> Object:
    """A volume that only one node can reach."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            **spec,
        },
    }


def is_available(volume: Object) -> bool:
    """Whether a claim may be bound to it."""
    return bool(volume["status"].get("phase") == "Available")


def node_of(volume: Object) -> str:
    """The node of a `volume_on` it."""
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    [requirement] = term["matchExpressions"]
    [node] = requirement["values"]
    assert isinstance(node, str)
    return node


def _look_after_volumes(api: API) -> None:
    for volume in api.list_all("PersistentVolume"):
        reference = volume["spec"].get("claimRef")
        phase = volume["status"].get("phase")
        if reference is None and phase != "Available":
            api.patch(volume, patch={"status": {"phase": "Available"}}, subresource="status")
        elif reference is not None and phase != "Bound":
            found = api.get("PersistentVolumeClaim", reference["name"], namespace=reference["namespace"])
            assert found["metadata"]["uid"] == reference["uid"]
            name = volume["metadata"]["name"]
            bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
            api.patch(found, patch=bound)
            for each in (found, volume):
                api.patch(each, patch={"status": {"phase": "Bound"}}, subresource="status")


def _look_after_claims(api: API, provisioner: Provisioner) -> None:
    for found in api.list_all("PersistentVolumeClaim"):
        node = found["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if node is None or found["spec"].get("volumeName"):
            continue
        makes = provisioner(found, node)
        if makes:
            metadata = found["metadata"]
            reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
            wanted = volume_on(
                node,
                f"pvc-{metadata['uid']}",
                found["spec"]["storageClassName"],
                claimRef={"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            )
            api.create(wanted)
            _look_after_volumes(api)
        elif makes is not None:
            api.patch(found, patch={"metadata": {"annotations": {_PROVISIONER: DRIVER, SELECTED_NODE: None}}})

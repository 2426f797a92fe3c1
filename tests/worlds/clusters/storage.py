"""Storage of a cluster: classes, volumes that are there from the start, and claims."""

from random import Random
from typing import Any, Final

from tests.worlds.actors.kubelet import DRIVER

Object = dict[str, Any]

LOCAL: Final = "local"
_CLASSES: Final = {"immediate": ("Immediate", DRIVER), "delayed": ("WaitForFirstConsumer", DRIVER)}


def storage_classes() -> list[Object]:
    """Return the classes: of the driver, at once and for the first consumer; and of volumes on nodes."""
    classes = {**_CLASSES, LOCAL: ("WaitForFirstConsumer", "kubernetes.io/no-provisioner")}
    return [
        {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
        for name, (mode, provisioner) in classes.items()
    ]


def local_volume(number: int, node_name: str, random: Random) -> Object:
    """Return a volume on a node."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return {
        "metadata": {"name": f"local-{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": random.choice(("1Gi", "2Gi", "5Gi"))},
            "storageClassName": LOCAL,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def draw_claim(name: str, random: Random) -> Object:
    """Draw a claim."""
    requests = {"storage": random.choice(("1Gi", "2Gi", "3Gi"))}
    mode = random.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))
    class_name = random.choice((*_CLASSES, LOCAL))
    modes = ["ReadWriteOnce"] if class_name == LOCAL else [mode]
    spec = {"accessModes": modes, "storageClassName": class_name, "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": spec}

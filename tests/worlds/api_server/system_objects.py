"""What an API server creates when it starts: the system's namespaces and priority classes."""

from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import NAMESPACES, PRIORITY_CLASSES
from tests.worlds.api_server.objects.admission import SYSTEM_PRIORITIES
from tests.worlds.api_server.registry import Registry

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


def create_system_objects(registry: Registry, etcd: Etcd) -> None:
    """Create those that are not there."""
    for name in _NAMESPACES:
        if etcd.get(NAMESPACES, name) is None:
            registry.create(NAMESPACES, "", {"metadata": {"name": name}})
    for name, value in SYSTEM_PRIORITIES.items():
        if etcd.get(PRIORITY_CLASSES, name) is None:
            registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})

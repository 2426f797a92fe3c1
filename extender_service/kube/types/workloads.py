"""Namespaces, Services and workload controllers, reduced to the fields that select or describe their pods."""

from extender_service.kube.types.core import LabelSelector, Object, ObjectMeta


class ServiceSpec(Object):
    """v1.ServiceSpec. A selector of None selects no pod, an empty selector every pod."""

    selector: dict[str, str] | None = None


class Service(Object):
    """v1.Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Object):
    """v1.ReplicationControllerSpec."""

    selector: dict[str, str] = {}


class ReplicationController(Object):
    """v1.ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(Object):
    """apps/v1 ReplicaSetSpec."""

    selector: LabelSelector | None = None


class ReplicaSet(Object):
    """apps/v1 ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Object):
    """apps/v1 StatefulSetSpec."""

    selector: LabelSelector | None = None


class StatefulSet(Object):
    """apps/v1 StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class Namespace(Object):
    """v1.Namespace."""

    metadata: ObjectMeta = ObjectMeta()

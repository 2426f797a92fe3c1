"""A cluster that is described by files instead of an API server."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import structs

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import STORAGE, StorageObject
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.parsing.known_fields import UnknownField
from extender_service.kube.parsing.manifests import ManifestError, Manifests, read_manifests
from extender_service.kube.types.core import Node, ObjectMeta, Pod
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import (
    BIND_COMPLETED_ANNOTATION,
    ClaimReference,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Phase,
    StorageClass,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# How many unknown fields are logged one by one.
MOST_LOGGED = 20


class ClusterFile:
    """Keeps a cluster equal to what its files say, and stands in for the API server where pods and claims are bound.

    What is bound here stays bound until a file is changed.
    """

    def __init__(self, cluster: Cluster, paths: Sequence[Path]) -> None:
        self._cluster = cluster
        self._paths = paths
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._stamps = self._read_stamps()
        self._unknown_fields: set[UnknownField] = set()

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the files."""
        return list(self._nodes.values())

    @property
    def pods(self) -> list[Pod]:
        """The pods of the files."""
        return list(self._pods.values())

    def load(self) -> None:
        """Read the files and take over what they say. Raises ManifestError, and changes nothing then."""
        self._stamps = self._read_stamps()
        self._take_over(read_manifests(self._paths))

    def _take_over(self, manifests: Manifests) -> None:
        self._apply(manifests)
        for (api_version, kind), count in manifests.unknown.items():
            extra = {"kind": f"{api_version}/{kind}", "count": count}
            log.info("objects of a kind that scheduling does not read", extra=extra)
        self._log_unknown_fields(manifests.unknown_fields)

    def _log_unknown_fields(self, fields: Sequence[UnknownField]) -> None:
        """Log fields that Kubernetes does not have, except those that were there when the files were last read."""
        new = [field for field in fields if field not in self._unknown_fields]
        self._unknown_fields = set(fields)
        for field in new[:MOST_LOGGED]:
            extra = {"file": field.place, "object": field.subject, "field": field.path}
            if field.suggestion is not None:
                extra["did_you_mean"] = field.suggestion
            log.warning("Kubernetes has no such field: it is ignored", extra=extra)
        if len(new) > MOST_LOGGED:
            log.warning("more fields that Kubernetes does not have", extra={"count": len(new) - MOST_LOGGED})

    async def follow(self) -> None:
        """Read the files again whenever one changes; what cannot be read is logged, and the last good state kept."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._read_stamps() == self._stamps:
                continue
            self._stamps = self._read_stamps()
            try:
                # In a thread: a large file takes its time, in which calls are answered.
                self._take_over(await asyncio.to_thread(read_manifests, self._paths))
            except ManifestError as error:
                log.warning("the cluster file cannot be read, its last good state stays: %s", error)
            else:
                log.info(
                    "the cluster file has changed",
                    extra={"nodes": self._cluster.node_count, "pods": self._cluster.pod_count},
                )

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod of the files."""
        return self._pods.get(f"{namespace}/{name}")

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod of the files. Raises ApiError as an API server would."""
        pod = self._pods.get(f"{namespace}/{name}")
        if pod is None:
            raise ApiError(ApiStatus(404, "NotFound", f'pods "{name}" not found'))
        if uid not in ("", pod_uid(pod)):
            raise ApiError(ApiStatus(409, "Conflict", f"the UID of pod {name} is {pod_uid(pod)}, not {uid}"))
        if not self._cluster.nodes.is_node(node_name):
            raise ApiError(ApiStatus(404, "NotFound", f'nodes "{node_name}" not found'))
        bound = structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name))
        self._pods[f"{namespace}/{name}"] = bound
        self._cluster.apply_pod(bound)

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Bind a volume to the claim that it names; there is no volume controller that would."""
        reference = volume.spec.claim_ref
        claim = None if reference is None else self._cluster.storage.claim(reference.namespace, reference.name)
        written = structs.replace(volume, status=Phase("Bound"))
        self._cluster.apply_storage(written)
        if claim is not None:
            self._cluster.apply_storage(_bound(claim, volume.metadata.name))
        return written

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Make a volume for a claim, and bind the two; there is no provisioner that would."""
        volume = _made_for(claim, self._cluster.storage.storage_class(claim.class_name))
        bound = _bound(claim, volume.metadata.name)
        self._cluster.apply_storage(volume)
        self._cluster.apply_storage(bound)
        return bound

    def _apply(self, manifests: Manifests) -> None:
        nodes, pods = manifests.of(Node), manifests.of(Pod)
        for kind in WORKLOADS:
            self._cluster.workloads.replace(kind, manifests.of(kind).values())
        for storage_kind in STORAGE:
            self._replace_storage(storage_kind, manifests.of(storage_kind).values())
        for node in nodes.values():
            self._cluster.apply_node(node)
        for pod in pods.values():
            self._cluster.apply_pod(pod)
        for name in self._cluster.node_names():
            if name not in nodes:
                self._cluster.remove_node(name)
        for key in self._cluster.pod_keys():
            if "/".join(key) not in pods:
                self._cluster.remove_pod(key)
        self._nodes, self._pods = nodes, pods

    def _replace_storage(self, kind: type[StorageObject], items: Iterable[StorageObject]) -> None:
        gone = set(self._cluster.storage.keys(kind))
        for item in items:
            self._cluster.apply_storage(item)
            gone.discard(key_of(item))
        for key in gone:
            self._cluster.remove_storage(kind, key)

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _bound(claim: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"}
    return structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volume_name=volume_name),
        status=Phase("Bound"),
    )


def _made_for(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> PersistentVolume:
    """A volume of the class's driver, as large as the claim asks, and within reach of all nodes."""
    # A claim that a file gives no UID has namespace/name in its place.
    name = f"pvc-{claim.metadata.uid.replace('/', '-')}"
    spec = PersistentVolumeSpec(
        csi=CSISource(storage_class.provisioner if storage_class is not None else "", name),
        capacity=claim.spec.resources.requests,
        access_modes=claim.spec.access_modes,
        claim_ref=ClaimReference(*key_of(claim), claim.metadata.uid),
        storage_class_name=claim.class_name,
        volume_mode=claim.spec.volume_mode,
    )
    return PersistentVolume(ObjectMeta(name=name), spec, Phase("Bound"))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)

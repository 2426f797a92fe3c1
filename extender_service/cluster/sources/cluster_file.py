"""A cluster that is described by files instead of an API server."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from extender_service.cluster.amounts.pod_level_defaults import default_pod_level_requests
from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.sources.memory_api import MemoryApi
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import STORAGE, StorageObject
from extender_service.kube.parsing.known_fields import UnknownField
from extender_service.kube.parsing.manifests import ManifestError, Manifests, read_manifests
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.keys import key_of

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# How many unknown fields are logged one by one.
MOST_LOGGED = 20


class ClusterFile(MemoryApi):
    """Keeps a cluster equal to what its files say, and stands in for the API server where pods and claims are bound.

    What is bound here stays bound until a file is changed.
    """

    def __init__(self, cluster: Cluster, paths: Sequence[Path]) -> None:
        super().__init__(cluster)
        self._paths = paths
        self._stamps = self._read_stamps()
        self._unknown_fields: set[UnknownField] = set()

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

    def _apply(self, manifests: Manifests) -> None:
        nodes, pods = manifests.of(Node), manifests.of(Pod)
        for kind in WORKLOADS:
            self._cluster.workloads.replace(kind, manifests.of(kind).values())
        for storage_kind in STORAGE:
            self._replace_storage(storage_kind, manifests.of(storage_kind).values())
        gone: list[Node | Pod] = [node for name, node in self._nodes.items() if name not in nodes]
        gone += [pod for name, pod in self._pods.items() if name not in pods]
        for node in nodes.values():
            self.put(node)
        for pod in pods.values():
            self.put(default_pod_level_requests(pod, self._cluster.rules))
        for item in gone:
            self.remove(item)

    def _replace_storage(self, kind: type[StorageObject], items: Iterable[StorageObject]) -> None:
        gone = set(self._cluster.storage.keys(kind))
        for item in items:
            self.put(item)
            gone.discard(key_of(item))
        for key in gone:
            self._stores[kind].remove(key)

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)

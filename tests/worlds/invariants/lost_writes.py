"""Pods whose bindings wait for a claim or a volume that went back with etcd."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.volume_binding.volume_binder import BoundVolumes
from extender_service.scheduling.binder import Binder
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.api_server.kinds import CLAIMS, PODS, VOLUMES, Kind
from tests.worlds.invariants.insides import awaited_by, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process

# kube-scheduler's default bindTimeoutSeconds.
_MOST_SECONDS: Final = 600.0
_KIND_OF: Final[Mapping[type, Kind]] = {PersistentVolume: VOLUMES, PersistentVolumeClaim: CLAIMS}


def wait_for_lost_writes(observed: Observed, process: Process) -> set[str]:
    """Return the UIDs of the pods whose bindings wait in a program for a write that etcd has lost.

    A pod waits so in PreBind, for 600 s at most, while etcd has an older version of a claim or a volume than the one
    that was written for this pod: etcd was restored since. To kube-scheduler, too, that looks like a watch that lags,
    and it waits (checkBindings in plugins/volumebinding/binder.go). What ends that is a later version, or that the
    claim, the volume or the pod is gone.
    """
    return {uid for uid, _ in _waiting_in(observed, process)}


def assumed_for_lost_writes(observed: Observed, process: Process) -> set[tuple[type, Key]]:
    """Return the volumes and claims that may stay assumed in a program while such pods wait: those of their plans."""
    found = _waiting_in(observed, process)
    return {(type(written), key_of(written)) for _, volumes in found for written in _written(volumes)}


def _waiting_in(observed: Observed, process: Process) -> Iterator[tuple[str, BoundVolumes]]:
    insides = scheduler_insides(process) or service_insides(process)
    if insides is not None:
        yield from _waiting(insides.engine.binder, observed.model.etcd)


def _waiting(binder: Binder, etcd: Etcd) -> Iterator[tuple[str, BoundVolumes]]:
    """Yield the UIDs of such pods, and their volumes."""
    unbound = {item.value["metadata"]["uid"] for item in etcd.all(PODS) if not item.value["spec"].get("nodeName")}
    for uid in binder._under_way.keys() & unbound:
        for coroutine in awaited_by(binder._under_way[uid].task):
            frame = coroutine.cr_frame
            if frame is not None and frame.f_code is BoundVolumes._wait.__code__ and _is_lost(frame.f_locals, etcd):
                yield uid, frame.f_locals["self"]


def _is_lost(variables: Mapping[str, Any], etcd: Etcd) -> bool:
    """Return whether etcd has an older version of what was written, and the wait has not taken too long."""
    waits_since = variables["deadline"] - variables["timeout_seconds"]
    if variables["now"]() - waits_since > _MOST_SECONDS:
        return False
    for written in _written(variables["self"]):
        stored = etcd.get(_KIND_OF[type(written)], "/".join(filter(None, key_of(written))))
        if stored is not None and stored.revision < int(written.metadata.resource_version):
            return True
    return False


def _written(volumes: BoundVolumes) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
    for volume, _ in volumes._volumes.bindings:
        yield volume
    yield from volumes._volumes.provisions

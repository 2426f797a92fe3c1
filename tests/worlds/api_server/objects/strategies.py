"""What the API server does to an object before it stores it: create, update, and update of the status."""

from typing import Any

import msgspec

from tests.worlds.api_server import kinds
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects import defaults
from tests.worlds.api_server.objects.conditions import set_condition

Object = dict[str, Any]

# The first minor release in which metadata.generation of pods is counted.
POD_GENERATION_SINCE = 34
# Kinds whose object may come with its status.
_STATUS_AT_CREATION = (kinds.NODES, kinds.SERVICES)
# What ResetObjectMetaForStatus of apimachinery resets: not deletionGracePeriodSeconds, for example.
_RESET_METADATA = ("annotations", "deletionTimestamp", "finalizers", "generation", "labels", "ownerReferences")


class Strategy:
    """The rules of one release: 31 is Kubernetes 1.31. What clients send has its defaults before."""

    def __init__(self, minor: int) -> None:
        self._minor = minor

    def prepare_create(self, kind: Kind, value: Object, now: str) -> None:
        """Drop what a creation may not set, and fill in the defaults of that."""
        if kind.has_status and kind not in _STATUS_AT_CREATION:
            value.pop("status", None)
        if kind is kinds.ATTACHMENTS:
            value["status"] = {"attached": False}
        defaults.fill(kind, value, self._minor)
        metadata = value["metadata"]
        metadata.pop("generation", None)
        if self._counts_generations(kind) or kind is kinds.PRIORITY_CLASSES:
            metadata["generation"] = 1
        if kind is kinds.PODS:
            self._prepare_pod(value, now)
        elif kind is kinds.CLAIMS:
            _add_finalizer(metadata, "kubernetes.io/pvc-protection")
        elif kind is kinds.VOLUMES:
            _add_finalizer(metadata, "kubernetes.io/pv-protection")
            value["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}

    def prepare_update(self, kind: Kind, value: Object, before: Object) -> None:
        """Keep what an update may not change, and count the generation. Admission comes before."""
        if kind.has_status:
            if "status" in before:
                value["status"] = before["status"]
            else:
                value.pop("status", None)
        _keep(value["metadata"], before["metadata"], "generation")
        counts = self._counts_generations(kind) or kind is kinds.CSI_DRIVERS
        if counts and value.get("spec") != before.get("spec"):
            value["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1

    def prepare_resize(self, value: Object, before: Object) -> None:
        """Keep all of a pod except the resources of its containers, and metadata that validation compares.

        Where containers were added, removed or renamed, they stay as they were sent: validation refuses that.
        """
        sent = value.setdefault("spec", {}).get("containers", [])
        if len(sent) == len(before["spec"]["containers"]):
            kept = msgspec.json.decode(msgspec.json.encode(before))
            metadata = kept.pop("metadata")
            for name in _RESET_METADATA:
                _keep(value["metadata"], metadata, name)
            value.update(kept)
            value["spec"]["containers"] = _resized(sent, value["spec"]["containers"])
        if self.counts_pod_generations() and value["spec"] != before["spec"]:
            value["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1

    def prepare_status(self, kind: Kind, value: Object, before: Object, now: str) -> None:
        """Keep all that an update of the status may not change."""
        for name in [name for name in value if name not in ("metadata", "status")]:
            if name not in before:
                del value[name]
        for name, part in before.items():
            if name not in ("metadata", "status"):
                value[name] = part
        _keep(value["metadata"], before["metadata"], "generation")
        if kind is kinds.PODS:
            _keep(value["metadata"], before["metadata"], "ownerReferences")
            value["metadata"].pop("deletionTimestamp", None)
        elif kind is kinds.VOLUMES:
            status, old = value.setdefault("status", {}), before.get("status", {})
            if status.get("phase") != old.get("phase"):
                status["lastPhaseTransitionTime"] = now

    def counts_pod_generations(self) -> bool:
        """Whether pods have a generation."""
        return self._minor >= POD_GENERATION_SINCE

    def _counts_generations(self, kind: Kind) -> bool:
        return kind.has_generation or (kind is kinds.PODS and self.counts_pod_generations())

    def _prepare_pod(self, pod: Object, now: str) -> None:
        pod["status"] = {"phase": "Pending", "qosClass": defaults.quality_of_service(pod["spec"])}
        defaults.tolerate_lost_nodes(pod)
        if pod["spec"].get("schedulingGates"):
            set_condition(
                pod["status"],
                now,
                type="PodScheduled",
                status="False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
            )


def _resized(sent: list[Object], kept: list[Object]) -> list[Object]:
    """Return containers with the resources that were sent, or those that were sent if their names are others."""
    for new, old in zip(sent, kept, strict=True):
        if new.get("name") != old["name"]:
            return sent
        old["resources"] = new.get("resources", {})
        _keep(old, new, "resizePolicy")
    return kept


def _keep(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _add_finalizer(metadata: Object, name: str) -> None:
    if name not in metadata.setdefault("finalizers", []):
        metadata["finalizers"].append(name)

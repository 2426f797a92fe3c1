"""What makes an object invalid: a part of the API server's validation, the rules that a scheduler's world can break.

A cause is a reason, a text and the field's path, as `errors.invalid` takes them. The texts are shorter than Go's.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.worlds.actors.fitting import amounts_of
from tests.worlds.api_server import kinds
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects.defaults import quality_of_service

Object = dict[str, Any]
Cause = tuple[str, str, str]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?\d+))?")
# The first minor releases with other reasons and paths of the same rules.
OWNER_IS_REQUIRED_SINCE = 37
CONDITIONS_ARE_STATUS_SINCE = 33
CHECKS_STATEFUL_TEMPLATES_SINCE = 34
REFUSES_NOMINATION_SINCE = 35
STORAGE_CLASS_IS_IMMUTABLE_SINCE = 36
CHECKS_QUALITY_UNTIL = 31

_IMMUTABLE = "field is immutable"
_FORBIDDEN_CHANGES: dict[Kind, tuple[str, ...]] = {
    kinds.PRIORITY_CLASSES: ("value",),
    kinds.STORAGE_CLASSES: ("parameters", "provisioner", "reclaimPolicy"),
}
_IMMUTABLE_FIELDS: dict[Kind, tuple[str, ...]] = {
    kinds.PRIORITY_CLASSES: ("preemptionPolicy",),
    kinds.STORAGE_CLASSES: ("volumeBindingMode",),
    kinds.CAPACITIES: ("nodeTopology", "storageClassName"),
    kinds.ATTACHMENTS: ("spec",),
}
_POD_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def new_object(kind: Kind, value: Object, minor: int) -> Iterator[Cause]:
    """Yield what is wrong with an object that is to be created."""
    metadata = value["metadata"]
    if kind is kinds.BUDGETS and (causes := [*_content(kind, value, minor)]):
        yield from causes  # their strategy leaves metadata to what comes after it
        return
    if not metadata.get("name"):
        yield ("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
    else:
        yield from _name(kind, metadata["name"])
    yield from _metadata(metadata, minor)
    yield from _content(kind, value, minor)
    if kind is kinds.PODS and value["spec"].get("schedulingGates") and value["spec"].get("nodeName"):
        text = "Forbidden: cannot be set until all schedulingGates have been cleared"
        yield ("FieldValueForbidden", text, "spec.nodeName")


def changed_object(kind: Kind, value: Object, before: Object, minor: int) -> Iterator[Cause]:
    """Yield what is wrong with a change of an object, except of its status."""
    yield from changed_metadata(value, before, minor)
    yield from _content(kind, value, minor)
    if kind is kinds.PODS:
        yield from _changed_pod(value["spec"], before["spec"], minor)
    elif kind in (kinds.REPLICA_SETS, kinds.STATEFUL_SETS):
        if value["spec"].get("selector") != before["spec"].get("selector"):
            yield ("FieldValueInvalid", f"Invalid value: {_IMMUTABLE}", "spec.selector")
    elif kind is kinds.CLAIMS:
        yield from _changed_claim(value, before)
    yield from _changed_fields(kind, value, before, minor)


def changed_status(kind: Kind, value: Object, before: Object, minor: int) -> Iterator[Cause]:
    """Yield what is wrong with a change of an object's status."""
    yield from changed_metadata(value, before, minor)
    if kind is kinds.PODS:
        nominated = (value.get("status") or {}).get("nominatedNodeName")
        is_bound = minor >= REFUSES_NOMINATION_SINCE and before["spec"].get("nodeName")
        if nominated and is_bound and nominated != before["status"].get("nominatedNodeName"):
            text = "Forbidden: may not be set on pods that are already bound to a node"
            yield ("FieldValueForbidden", text, "status.nominatedNodeName")
        for index, condition in enumerate((value.get("status") or {}).get("conditions") or ()):
            if not condition.get("type"):
                path = "status" if minor >= CONDITIONS_ARE_STATUS_SINCE else "metadata"
                yield ("FieldValueInvalid", 'Invalid value: ""', f"{path}.conditions[{index}].Type")


def resized_pod(kind: Kind, value: Object, before: Object, minor: int) -> Iterator[Cause]:
    """Yield what is wrong with other resources of a pod's containers."""
    yield from changed_metadata(value, before, minor)
    yield from _content(kind, value, minor)
    if quality_of_service(value["spec"]) != quality_of_service(before["spec"]):
        text = "Invalid value: Pod QOS Class may not change as a result of resizing"
        yield ("FieldValueInvalid", text, "spec")
    containers, old_containers = value["spec"].get("containers", ()), before["spec"]["containers"]
    for index, container in enumerate(containers):
        yield from _exceeded_limits(container["resources"], f"spec.containers[{index}].resources")
    if others := [*_other_containers(containers, old_containers)]:
        yield from others
        return
    for index, (container, old) in enumerate(zip(containers, old_containers, strict=True)):
        for part in ("requests", "limits"):
            if old["resources"].get(part, {}).keys() - container["resources"].get(part, {}).keys():
                text = f"Forbidden: resource {part} cannot be removed"
                yield ("FieldValueForbidden", text, f"spec.containers[{index}].resources.{part}")
        if _fixed_resources(container) != _fixed_resources(old):
            yield ("FieldValueForbidden", "Forbidden: only cpu and memory resources are mutable", "spec")


def _exceeded_limits(resources: Object, path: str) -> Iterator[Cause]:
    limits = amounts_of(resources.get("limits", {}))
    for name, amount in amounts_of(resources.get("requests", {})).items():
        if amount > limits.get(name, amount):
            text = f"Invalid value: must be less than or equal to {name} limit"
            yield ("FieldValueInvalid", text, f"{path}.requests")


def _other_containers(containers: Sequence[Object], before: Sequence[Object]) -> Iterator[Cause]:
    if len(containers) != len(before):
        text = "Forbidden: containers may not be added or removed on resize"
        yield ("FieldValueForbidden", text, "spec.containers")
        return
    for index, (container, old) in enumerate(zip(containers, before, strict=True)):
        if container.get("name") != old["name"]:
            text = "Forbidden: containers may not be renamed or reordered on resize"
            yield ("FieldValueForbidden", text, f"spec.containers[{index}].name")


def _fixed_resources(container: Object) -> Object:
    """What of a container no resize may change, of what it could."""
    resources = dict(container["resources"])
    for part in ("requests", "limits"):
        amounts = resources.pop(part, {})
        resources[part] = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return {"resources": resources, "resizePolicy": container.get("resizePolicy")}


def changed_metadata(value: Object, before: Object, minor: int) -> Iterator[Cause]:
    """Yield what is wrong with a change of an object's metadata."""
    new, old = value["metadata"], before["metadata"]
    yield from _metadata(new, minor)
    for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(name) != old.get(name):
            yield ("FieldValueInvalid", f"Invalid value: {new.get(name)!r}: {_IMMUTABLE}", f"metadata.{name}")
    if old.get("deletionTimestamp"):
        added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
        if added:
            text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
            yield ("FieldValueForbidden", f"{text} {added}", "metadata.finalizers")


def _name(kind: Kind, name: str) -> Iterator[Cause]:
    pattern, length = (_LABEL, 63) if kind in (kinds.NAMESPACES, kinds.SERVICES) else (_SUBDOMAIN, 253)
    if len(name) > length or not pattern.fullmatch(name):
        yield ("FieldValueInvalid", f'Invalid value: "{name}": it is no name of {kind.plural}', "metadata.name")


def _metadata(metadata: Object, minor: int) -> Iterator[Cause]:
    for part in ("labels", "annotations"):
        for key, text in (metadata.get(part) or {}).items():
            prefix, slash, name = key.rpartition("/")
            key_is_right = len(name) <= 63 and _QUALIFIED_NAME.fullmatch(name)
            if not key_is_right or (slash and not _SUBDOMAIN.fullmatch(prefix)):
                yield ("FieldValueInvalid", f'Invalid value: "{key}": it is no name', f"metadata.{part}")
            if part == "labels" and (len(text) > 63 or not _LABEL_VALUE.fullmatch(text)):
                yield ("FieldValueInvalid", f'Invalid value: "{text}": it is no value of a label', "metadata.labels")
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion"):
            text = f'Invalid value: "{finalizer}": name is neither a standard finalizer name nor is it fully qualified'
            yield ("FieldValueInvalid", text, f"metadata.finalizers[{index}]")
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        for name in ("apiVersion", "kind", "name", "uid"):
            if owner.get(name):
                continue
            if minor >= OWNER_IS_REQUIRED_SINCE:
                text = "Required value: must not be empty"
                yield ("FieldValueRequired", text, f"metadata.ownerReferences[{index}].{name}")
            else:
                text = f'Invalid value: "": {name} must not be empty'
                yield ("FieldValueInvalid", text, f"metadata.ownerReferences.{name}")


def _content(kind: Kind, value: Object, minor: int) -> Iterator[Cause]:
    if kind is kinds.PODS:
        yield from _pod_spec(value["spec"], "spec")
    elif kind in (kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.REPLICATION_CONTROLLERS):
        yield from _workload(kind, value["spec"], minor)
    elif kind is kinds.BUDGETS:
        spec = value.get("spec", {})
        if "minAvailable" in spec and "maxUnavailable" in spec:
            text = "minAvailable and maxUnavailable cannot be both set"
            yield ("FieldValueInvalid", f"Invalid value: {text}", "spec")
    elif kind is kinds.SERVICES:
        spec = value.get("spec", {})
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            yield ("FieldValueRequired", "Required value", "spec.ports")
    elif kind is kinds.LEASES:
        seconds = value.get("spec", {}).get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            text = f"Invalid value: {seconds}: must be greater than 0"
            yield ("FieldValueInvalid", text, "spec.leaseDurationSeconds")
        transitions = value.get("spec", {}).get("leaseTransitions")
        if transitions is not None and transitions < 0:
            text = f"Invalid value: {transitions}: must be greater than or equal to 0"
            yield ("FieldValueInvalid", text, "spec.leaseTransitions")
    elif kind is kinds.CLAIMS and not value["spec"].get("accessModes"):
        yield ("FieldValueRequired", "Required value: at least 1 access mode is required", "spec.accessModes")


def _pod_spec(spec: Object, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield ("FieldValueRequired", "Required value", f"{path}.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        place = f"{path}.containers[{index}]"
        name = container.get("name", "")
        if not name:
            yield ("FieldValueRequired", "Required value", f"{place}.name")
        elif not _LABEL.fullmatch(name):
            yield ("FieldValueInvalid", f'Invalid value: "{name}": it is no name', f"{place}.name")
        elif name in names:
            yield ("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{place}.name")
        names.add(name)
        if not container.get("image"):
            yield ("FieldValueRequired", "Required value", f"{place}.image")


def _workload(kind: Kind, spec: Object, minor: int) -> Iterator[Cause]:
    if spec.get("replicas", 0) < 0:
        text = f"Invalid value: {spec['replicas']}: must be greater than or equal to 0"
        yield ("FieldValueInvalid", text, "spec.replicas")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector") or {}
    wanted = selector if kind is kinds.REPLICATION_CONTROLLERS else selector.get("matchLabels") or {}
    if not wanted:
        yield ("FieldValueRequired", "Required value", "spec.selector")
    elif any(labels.get(key) != text for key, text in wanted.items()):
        text = "Invalid value: `selector` does not match template `labels`"
        yield ("FieldValueInvalid", text, "spec.template.metadata.labels")
    if kind is not kinds.STATEFUL_SETS or minor >= CHECKS_STATEFUL_TEMPLATES_SINCE:
        yield from _pod_spec((spec.get("template") or {}).get("spec") or {}, "spec.template.spec")


def _changed_pod(spec: Object, before: Object, minor: int) -> Iterator[Cause]:
    tolerations = spec.get("tolerations") or []
    if any(toleration not in tolerations for toleration in before.get("tolerations") or ()):
        text = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        yield ("FieldValueForbidden", text, "spec.tolerations")
    gates_before = before.get("schedulingGates") or []
    if any(gate not in gates_before for gate in spec.get("schedulingGates") or ()):
        text = "Forbidden: only deletion is allowed, but found new scheduling gates"
        yield ("FieldValueForbidden", text, "spec.schedulingGates")
    if minor <= CHECKS_QUALITY_UNTIL and quality_of_service(spec) != quality_of_service(before):
        yield ("FieldValueInvalid", "Invalid value: Pod QoS is immutable", "metadata")
    if _fixed_part(spec, is_gated=bool(gates_before)) != _fixed_part(before, is_gated=bool(gates_before)):
        yield ("FieldValueForbidden", f"Forbidden: {_POD_CHANGES}", "spec")
    elif gates_before:
        selector = spec.get("nodeSelector") or {}
        if any(selector.get(key) != text for key, text in (before.get("nodeSelector") or {}).items()):
            text = "Invalid value: only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield ("FieldValueInvalid", text, "spec.nodeSelector")


def _fixed_part(spec: Object, *, is_gated: bool) -> Object:
    """What of a pod's spec no update may change."""
    free = {"tolerations", "schedulingGates", "activeDeadlineSeconds"} | ({"nodeSelector"} if is_gated else set())
    fixed = {name: part for name, part in spec.items() if name not in free}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def _changed_fields(kind: Kind, value: Object, before: Object, minor: int) -> Iterator[Cause]:
    """The kinds of which single fields may not change."""
    for name in _FORBIDDEN_CHANGES.get(kind, ()):
        if value.get(name) == before.get(name):
            continue
        if name in ("provisioner", "reclaimPolicy") and minor >= STORAGE_CLASS_IS_IMMUTABLE_SINCE:
            yield ("FieldValueInvalid", f"Invalid value: {_IMMUTABLE}", name)
        else:
            yield ("FieldValueForbidden", "Forbidden: may not be changed in an update.", name)
    for name in _IMMUTABLE_FIELDS.get(kind, ()):
        if value.get(name) != before.get(name):
            yield ("FieldValueInvalid", f"Invalid value: {_IMMUTABLE}", name)
    if kind is kinds.CSI_DRIVERS:
        for name, shown in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            if value["spec"].get(name) != before["spec"].get(name):
                yield ("FieldValueInvalid", f"Invalid value: {_IMMUTABLE}", f"spec.{shown}")


def _changed_claim(value: Object, before: Object) -> Iterator[Cause]:
    new, old = dict(value["spec"]), dict(before["spec"])
    if not old.get("volumeName"):
        new.pop("volumeName", None)
        old.pop("volumeName", None)
    if before.get("status", {}).get("phase") == "Bound":
        new.pop("resources", None)
        old.pop("resources", None)
    new.pop("volumeAttributesClassName", None)
    old.pop("volumeAttributesClassName", None)
    if new != old:
        text = "Forbidden: spec is immutable after creation, except some fields of bound claims"
        yield ("FieldValueForbidden", text, "spec")
    if new.get("volumeMode") != old.get("volumeMode"):
        yield ("FieldValueInvalid", f"Invalid value: {_IMMUTABLE}", "volumeMode")

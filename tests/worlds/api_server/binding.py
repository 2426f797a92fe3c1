"""POST pods/NAME/binding (kubernetes/pkg/registry/core/pod/storage, BindingREST)."""

from typing import Any

from tests.worlds.api_server import errors, kinds
from tests.worlds.api_server.objects.conditions import set_condition
from tests.worlds.api_server.registry import Registry

Object = dict[str, Any]

# The first minor release in which a binding clears the nominated node, and in which it merges its labels.
CLEARS_NOMINATION_SINCE = 35
MERGES_LABELS_SINCE = 35


def bind(registry: Registry, namespace: str, name: str, binding: Object, minor: int, *, dry_run: bool) -> Object:
    """Assign a pod to a node, and return the answer's object. Raises RefusedError."""
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name", "") != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    _check_target(target)
    present = registry.get(kinds.PODS, namespace, name)
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, found = metadata.get(field), present.value["metadata"][field]
        if wanted and wanted != found:
            key = f"/registry/pods/{namespace}/{name}"
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            text = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
            raise errors.conflict(kinds.PODS, name, text)
    pod = present.value
    if "deletionTimestamp" in pod["metadata"]:
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")

    def assign(value: Object) -> None:
        value["spec"]["nodeName"] = target["name"]
        if minor >= CLEARS_NOMINATION_SINCE:
            value["status"].pop("nominatedNodeName", None)
        for part in ("annotations", *(("labels",) if minor >= MERGES_LABELS_SINCE else ())):
            if added := metadata.get(part):
                value["metadata"].setdefault(part, {}).update(added)
        set_condition(value["status"], registry.now(), type="PodScheduled", status="True")

    registry.change(kinds.PODS, present, assign, dry_run=dry_run)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_target(target: Object) -> None:
    """Its refusals are no metav1.Status of their own: they end as internal errors."""
    problems = []
    if target.get("kind", "") not in ("", "Node"):
        problems.append(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        problems.append("target.name: Required value")
    if problems:
        raise errors.RefusedError(500, "", problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _refused(name: str, why: str) -> errors.RefusedError:
    return errors.conflict(kinds.PODS, name, why, subresource="binding")

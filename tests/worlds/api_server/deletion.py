"""DELETE: preconditions, grace periods of pods, finalizers (registry.Store.Delete and rest.BeforeDelete)."""

from collections.abc import Mapping
from typing import Any

from tests.worlds.api_server import errors, kinds
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects.timestamps import parse, rfc3339
from tests.worlds.api_server.registry import Registry, key_of

Object = dict[str, Any]
Options = Mapping[str, Any]

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


def delete(registry: Registry, kind: Kind, namespace: str, name: str, options: Options) -> tuple[Item, bool]:
    """Delete an object, or let its deletion begin. Returns it as it is then, and whether it is gone.

    `options` is a metav1.DeleteOptions. Raises RefusedError.
    """
    _check_options(options)
    present = registry.get(kind, namespace, name)
    _check_preconditions(kind, present, options.get("preconditions") or {})
    is_dry_run = bool(options.get("dryRun"))
    value = present.copy()
    metadata = value["metadata"]
    is_graceful = False
    if kind is kinds.PODS:
        if metadata.get("deletionGracePeriodSeconds") and not _is_shorter(metadata, options):
            return present, False
        is_graceful = _begin(registry, value, options)
    _set_finalizers(kind, metadata, options)
    if kind is kinds.NAMESPACES and value["spec"].get("finalizers"):
        return _terminate_namespace(registry, present, value, dry_run=is_dry_run), False
    if metadata.get("finalizers"):
        if not is_graceful:
            _mark(registry, metadata)
        return registry.store(kind, present, value, dry_run=is_dry_run), False
    if is_graceful:
        updated = registry.store(kind, present, value, dry_run=is_dry_run)
        if metadata["deletionGracePeriodSeconds"] or is_dry_run:
            return updated, not metadata["deletionGracePeriodSeconds"]
    if is_dry_run:
        return present, True
    return registry.etcd.delete(kind, key_of(namespace, name)), True


def _check_options(options: Options) -> None:
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    causes = []
    if policy is not None and orphans is not None:
        text = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        causes.append(("FieldValueInvalid", text, "propagationPolicy"))
    if policy is not None and policy not in ("Background", "Foreground", "Orphan"):
        text = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        causes.append(("FieldValueNotSupported", text, "propagationPolicy"))
    if causes:
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", causes)


def _check_preconditions(kind: Kind, present: Item, wanted: Mapping[str, str]) -> None:
    for field, word, after in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        found = present.value["metadata"][field]
        if field not in wanted or wanted[field] == found:
            continue
        if kind is kinds.NAMESPACES:
            text = f"Precondition failed: {word} in precondition: {wanted[field]}, {word} in object meta: {found}"
            raise errors.conflict(kind, present.value["metadata"]["name"], text)
        text = f"the {word} in the precondition ({wanted[field]}) does not match the {word} in record ({found})"
        raise conflict_of_kind(kind, present.value["metadata"]["name"], f"{text}. {after}")


def conflict_of_kind(kind: Kind, name: str, why: str) -> errors.RefusedError:
    """Return a conflict that names the kind in place of the resource, as deletions do."""
    refusal = errors.conflict(kind, name, why)
    qualified = f"{kind.name}.{kind.group}" if kind.group else kind.name
    refusal.status["message"] = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    refusal.status["details"]["kind"] = kind.name
    return refusal


def _is_shorter(metadata: Object, options: Options) -> bool:
    """Whether a pod that is terminating shall go sooner than it was to."""
    period = options.get("gracePeriodSeconds")
    return period is not None and _seconds(period) < metadata["deletionGracePeriodSeconds"]


def _seconds(period: int) -> int:
    """A negative grace period counts as one second."""
    return 1 if period < 0 else period


def _begin(registry: Registry, pod: Object, options: Options) -> bool:
    """Set the time of a pod's deletion. Returns False if it had come before."""
    metadata, spec = pod["metadata"], pod["spec"]
    if "deletionTimestamp" in metadata:
        before = metadata.get("deletionGracePeriodSeconds")
        if not before:
            return False
        sooner = _seconds(options["gracePeriodSeconds"])
        metadata["deletionTimestamp"] = rfc3339(parse(metadata["deletionTimestamp"]) - before + sooner)
        metadata["deletionGracePeriodSeconds"] = sooner
        return True
    asked = options.get("gracePeriodSeconds")
    period = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
    if not spec.get("nodeName") or pod["status"].get("phase") in ("Failed", "Succeeded"):
        period = 0
    period = _seconds(period)
    metadata["deletionTimestamp"] = rfc3339(parse(registry.now()) + period)
    metadata["deletionGracePeriodSeconds"] = period
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True


def _mark(registry: Registry, metadata: Object) -> None:
    """Mark what waits for its finalizers alone."""
    if "deletionTimestamp" not in metadata:
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = registry.now()
    elif parse(metadata["deletionTimestamp"]) > parse(registry.now()):
        metadata["deletionTimestamp"] = registry.now()
    metadata["deletionGracePeriodSeconds"] = 0


def _set_finalizers(kind: Kind, metadata: Object, options: Options) -> None:
    """Ask the garbage collector to orphan the dependents or to delete them first, as options or finalizers say."""
    present = metadata.get("finalizers") or []
    orphans = options.get("orphanDependents")
    if orphans is not None:
        wanted = ORPHAN if orphans else None
    elif (policy := options.get("propagationPolicy")) is not None:
        wanted = _FINALIZER_OF.get(policy)
    else:
        # The oldest of the kinds with dependents orphans them unless it is told otherwise.
        default = ORPHAN if kind is kinds.REPLICATION_CONTROLLERS else None
        wanted = next((name for name in present if name in (ORPHAN, FOREGROUND)), default)
    names = [name for name in present if name not in (ORPHAN, FOREGROUND)] + ([wanted] if wanted else [])
    if set(names) != set(present):
        metadata["finalizers"] = names
        if not names:
            del metadata["finalizers"]


def _terminate_namespace(registry: Registry, present: Item, value: Object, *, dry_run: bool) -> Item:
    metadata = value["metadata"]
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = registry.now()
        value["status"]["phase"] = "Terminating"
    return registry.store(kinds.NAMESPACES, present, value, dry_run=dry_run)

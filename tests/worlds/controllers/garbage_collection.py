"""The garbage collector of kube-controller-manager: what becomes of objects whose owners are deleted."""

from typing import Any

from tests.worlds.api_server import deletion
from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.kinds import KINDS, Kind
from tests.worlds.api_server.registry import Registry

Object = dict[str, Any]


class GarbageCollector:
    """Deletes objects whose owners are all gone, and ends deletions that wait for their dependents.

    It looks at all objects in each `step`, once; the owner of the world says when.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def step(self) -> bool:
        """Do what can be done now. Returns whether anything was done: another step may then find more."""
        is_done = False
        dependents = [(kind, item) for kind in KINDS for item in self._registry.etcd.dependents(kind)]
        for kind, item in dependents:
            owners = item.value["metadata"]["ownerReferences"]
            if not any(self._exists(item, owner) for owner in owners):
                is_done |= self._delete(kind, item)
        for kind in KINDS:
            for item in self._registry.etcd.ending(kind):
                is_done |= self._finalize(kind, item, dependents)
        return is_done

    def _exists(self, item: Item, reference: Object) -> bool:
        kind = _kind_of(reference)
        if kind is None:
            return True  # of a kind that the model does not have: as if it could not be asked about
        namespace = item.value["metadata"].get("namespace", "") if kind.is_namespaced else ""
        try:
            owner = self._registry.get(kind, namespace, reference["name"])
        except RefusedError:
            return False
        return bool(owner.value["metadata"]["uid"] == reference["uid"])

    def _finalize(self, kind: Kind, owner: Item, dependents: list[tuple[Kind, Item]]) -> bool:
        """Orphan the dependents of a deleted object, or delete them first, if its finalizers ask for that."""
        metadata = owner.value["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if deletion.ORPHAN not in finalizers and deletion.FOREGROUND not in finalizers:
            return False
        own = [(kind, self._latest(kind, item)) for kind, item in dependents if _refers(item, metadata["uid"])]
        left = [(kind, item) for kind, item in own if item is not None]
        if deletion.ORPHAN in finalizers:
            for dependent_kind, item in left:
                self._registry.change(dependent_kind, item, lambda value: _drop_owner(value, metadata["uid"]))
            self._drop_finalizer(kind, owner, deletion.ORPHAN)
            return True
        blocking = [
            (dependent_kind, item)
            for dependent_kind, item in left
            if any(
                owner["uid"] == metadata["uid"] and owner.get("blockOwnerDeletion")
                for owner in item.value["metadata"]["ownerReferences"]
            )
        ]
        is_done = False
        for dependent_kind, item in left:
            is_done |= self._delete(dependent_kind, item)
        if not blocking:
            self._drop_finalizer(kind, owner, deletion.FOREGROUND)
        return is_done or not blocking

    def _latest(self, kind: Kind, item: Item) -> Item | None:
        latest = self._registry.etcd.get(kind, item.key)
        return latest if latest and latest.value["metadata"]["uid"] == item.value["metadata"]["uid"] else None

    def _delete(self, kind: Kind, item: Item) -> bool:
        metadata = item.value["metadata"]
        if "deletionTimestamp" in metadata:
            return False
        options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
        try:
            deletion.delete(self._registry, kind, metadata.get("namespace", ""), metadata["name"], options)
        except RefusedError:
            return False  # it is gone already
        return True

    def _drop_finalizer(self, kind: Kind, item: Item, name: str) -> None:
        left = [entry for entry in item.value["metadata"]["finalizers"] if entry != name]
        if left:
            self._registry.change(kind, item, lambda value: value["metadata"].update(finalizers=left))
        else:
            self._registry.etcd.delete(kind, item.key)


def _kind_of(reference: Object) -> Kind | None:
    for kind in KINDS:
        if kind.name == reference["kind"] and kind.api_version == reference["apiVersion"]:
            return kind
    return None


def _refers(item: Item, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item.value["metadata"]["ownerReferences"])


def _drop_owner(value: Object, uid: str) -> None:
    left = [owner for owner in value["metadata"]["ownerReferences"] if owner["uid"] != uid]
    value["metadata"]["ownerReferences"] = left
    if not left:
        del value["metadata"]["ownerReferences"]

"""Reads and writes of single objects, as apiserver's pkg/registry/generic/registry does them."""

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from tests.worlds.api_server import errors, kinds
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.objects import defaults, managed_fields, patches, validation
from tests.worlds.api_server.objects.admission import Admission
from tests.worlds.api_server.objects.managed_fields import ManagedFields, Manager
from tests.worlds.api_server.objects.strategies import Strategy
from tests.worlds.api_server.objects.timestamps import rfc3339

Object = dict[str, Any]
Change = Callable[[Object], Object]

STATUS = "status"
RESIZE = "resize"


_CHECKS = {
    "": validation.changed_object,
    STATUS: validation.changed_status,
    RESIZE: validation.resized_pod,
}
# Where etcd has the objects of a kind, if not under its plural.
_PREFIXES = {kinds.NODES: "minions", kinds.REPLICATION_CONTROLLERS: "controllers", kinds.SERVICES: "services/specs"}
# The first minor release in which a PUT with a UID says of an object that is not there that it is not found.
_MISSING_IS_NOT_FOUND_SINCE = 34


class Registry:
    """Objects by kind, namespace and name. All methods raise RefusedError.

    `clock` returns seconds since 1970; `random` draws UIDs and the ends of generated names. `manager` is the name of a
    client in managedFields.
    """

    def __init__(self, etcd: Etcd, clock: Callable[[], float], random: Random, minor: int) -> None:
        self.etcd = etcd
        self.strategy = Strategy(minor)
        self._minor = minor
        self._clock = clock
        self._random = random
        self._admission = Admission(etcd, minor)

    def now(self) -> str:
        """Return the time as objects have it."""
        return rfc3339(self._clock())

    def get(self, kind: Kind, namespace: str, name: str) -> Item:
        """Return an object as it is stored now."""
        item = self.etcd.get(kind, key_of(namespace, name))
        if item is None:
            raise errors.not_found(kind, name)
        return item

    def create(self, kind: Kind, namespace: str, value: Object, *, manager: str = "", dry_run: bool = False) -> Item:
        """Create an object from what a client sent."""
        _drop_absent(value)
        metadata = value.setdefault("metadata", {})
        _check_namespace(kind, namespace, metadata)
        defaults.fill(kind, value, self._minor)
        managed = self._managed(kind, None, value, Manager(manager, ""))
        self._admission.admit_creation(kind, namespace, value)
        metadata["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.now()
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(name, None)
        _drop_empty(metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            letters = "bcdfghjklmnpqrstvwxz2456789"
            metadata["name"] = metadata["generateName"] + "".join(self._random.choices(letters, k=5))
        self.strategy.prepare_create(kind, value, metadata["creationTimestamp"])
        if causes := [*validation.new_object(kind, value, self._minor)]:
            raise errors.invalid(kind.name, kind.group, metadata.get("name", ""), causes)
        if metadata.get("resourceVersion") and not dry_run:
            raise errors.RefusedError(500, "", "resourceVersion should not be set on objects to be created")
        name, key = metadata["name"], key_of(namespace, metadata["name"])
        present = self.etcd.get(kind, key)
        if present is not None:
            is_being_deleted = "deletionTimestamp" in present.value["metadata"]
            raise errors.already_exists(kind, name, is_being_deleted=is_being_deleted)
        if dry_run:
            return Item(key, value, 0)
        return self.etcd.put(kind, key, value, managed)

    def replace(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        value: Object,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> tuple[Item, bool]:
        """Put an object in an object's place, and return it and whether it is new."""
        metadata = value.setdefault("metadata", {})
        if metadata.get("name", "") != name:
            if not metadata.get("name"):
                text = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
                raise errors.bad_request(text)
            text = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            raise errors.bad_request(text)
        _check_namespace(kind, namespace, metadata)
        present = self.etcd.get(kind, key_of(namespace, name))
        uid = metadata.get("uid", "")
        present_uid = present.value["metadata"]["uid"] if present else ""
        is_missing = present is None and not kind.creates_on_update and self._minor >= _MISSING_IS_NOT_FOUND_SINCE
        if uid and uid != present_uid and not is_missing:
            raise self._wrong_uid(kind, namespace, name, uid, present_uid)
        if present is None:
            if not kind.creates_on_update or subresource:
                raise errors.not_found(kind, name)
            metadata.pop("resourceVersion", None)
            return self.create(kind, namespace, value, manager=manager, dry_run=dry_run), True
        if not metadata.get("resourceVersion") and not kind.updates_unconditionally:
            text = "Invalid value: 0x0: must be specified for an update"
            cause = ("FieldValueInvalid", text, "metadata.resourceVersion")
            raise errors.invalid(kind.plural, kind.group, name, [cause])
        return self._update(kind, present, value, Manager(manager, subresource), dry_run=dry_run), False

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        content_type: str,
        body: bytes,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Item:
        """Apply a patch to an object or to its status."""
        patches.check(content_type, body, self._minor)
        present = self.get(kind, namespace, name)
        value = patches.apply(content_type, body, present.copy(), kind.name)
        if not isinstance(value.get("metadata"), dict):
            raise errors.bad_request("metadata must be an object")
        return self._update(kind, present, value, Manager(manager, subresource), dry_run=dry_run)

    def change(self, kind: Kind, item: Item, change: Callable[[Object], None], *, dry_run: bool = False) -> Item:
        """Store an object as `change` leaves it, past strategies and validation, unless that changes nothing."""
        value = item.copy()
        change(value)
        return self.store(kind, item, value, dry_run=dry_run)

    def store(
        self, kind: Kind, present: Item, value: Object, *, managed: ManagedFields | None = None, dry_run: bool = False
    ) -> Item:
        """Store a new version of an object, unless it is equal to the present one. Managed fields stay by default."""
        value["metadata"]["resourceVersion"] = str(present.revision)
        managed = present.managed if managed is None else managed
        if value == present.value and not managed_fields.differ(managed, present.managed):
            return present
        if dry_run:
            return Item(present.key, value, present.revision)
        return self.etcd.put(kind, present.key, value, managed)

    def _managed(self, kind: Kind, present: Item | None, sent: Object, manager: Manager) -> ManagedFields:
        """Return the managed fields after a write. Only pods have some here: all other endpoints say what they drop."""
        if kind is not kinds.PODS:
            return {}
        managed, before = (present.managed, present.value) if present else ({}, {})
        return managed_fields.updated(managed, before, sent, manager, self.now())

    def _update(self, kind: Kind, present: Item, value: Object, manager: Manager, *, dry_run: bool) -> Item:
        subresource = manager.subresource
        metadata, before = value["metadata"], present.value
        name = before["metadata"]["name"]
        version = metadata.get("resourceVersion")
        if version and version != str(present.revision):
            if not version.isdecimal():
                raise errors.RefusedError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
            raise errors.stale(kind, name)
        value.pop("apiVersion", None)
        value.pop("kind", None)
        metadata.pop("managedFields", None)
        _drop_absent(value)
        _drop_empty(metadata)
        defaults.fill(kind, value, self._minor)
        managed = self._managed(kind, present, value, manager)
        if subresource == STATUS:
            self.strategy.prepare_status(kind, value, before, self.now())
        elif subresource == RESIZE:
            self.strategy.prepare_resize(value, before)
        else:
            self._admission.admit_update(kind, value, before)
            self.strategy.prepare_update(kind, value, before)
        metadata.setdefault("uid", before["metadata"]["uid"])
        for field in ("creationTimestamp", "deletionTimestamp"):
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        if "deletionGracePeriodSeconds" in before["metadata"]:
            metadata.setdefault("deletionGracePeriodSeconds", before["metadata"]["deletionGracePeriodSeconds"])
        check = _CHECKS[subresource]
        if causes := [*check(kind, value, before, self._minor)]:
            raise errors.invalid(kind.name, kind.group, name, causes)
        if subresource == RESIZE:
            self._admission.admit_resize(value, before)
        if _is_finished(value, before):
            if not dry_run:
                self.etcd.delete(kind, present.key)
            value["metadata"]["resourceVersion"] = str(present.revision)
            return Item(present.key, value, present.revision)
        return self.store(kind, present, value, managed=managed, dry_run=dry_run)

    def _wrong_uid(self, kind: Kind, namespace: str, name: str, uid: str, present: str) -> errors.RefusedError:
        text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present}"
        key = f"/registry/{_PREFIXES.get(kind, kind.plural)}/{key_of(namespace, name)}"
        storage = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
        return errors.conflict(kind, name, storage)


def key_of(namespace: str, name: str) -> str:
    """Return the key under which an object is stored, within its kind."""
    return f"{namespace}/{name}" if namespace else name


def _check_namespace(kind: Kind, namespace: str, metadata: Object) -> None:
    if not kind.is_namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        if metadata["namespace"]:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(text)
        metadata["namespace"] = namespace


def _drop_empty(metadata: Object) -> None:
    """Leave out what Go leaves out when it is empty."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def _drop_absent(value: Any) -> None:
    """Leave out null and empty lists, as Go reads and writes them like what is not there."""
    if isinstance(value, dict):
        for name, entry in [*value.items()]:
            if entry is None or entry == []:
                del value[name]
            elif isinstance(entry, dict | list):
                _drop_absent(entry)
    else:
        for entry in value:
            if isinstance(entry, dict | list):
                _drop_absent(entry)


def _is_finished(value: Object, before: Object) -> bool:
    """Whether an update lets an object go: it is being deleted, its time is over, and it has no finalizer now."""
    metadata = before["metadata"]
    return (
        not value["metadata"].get("finalizers")
        and "deletionTimestamp" in metadata
        and not metadata.get("deletionGracePeriodSeconds")
        and not (before.get("spec") or {}).get("finalizers")
    )

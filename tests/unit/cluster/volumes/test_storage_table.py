from collections.abc import Callable

import pytest
from msgspec import structs

from extender_service.cluster.structures.shown_kinds import HiddenKindError
from extender_service.cluster.volumes.storage_table import OutOfSyncError, Storage
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import LabelSelector, SelectorRequirement
from extender_service.kube.types.storage import (
    ClaimReference,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tests.support.storage_objects import make_capacity, make_claim, make_class, make_driver, make_volume

EVERYWHERE = LabelSelector()


def most_bytes(storage: Storage, class_name: str) -> list[int]:
    return [capacity.most_bytes for capacity in storage.capacities(class_name)]


def test_objects_are_found_by_name() -> None:
    storage = Storage()
    claim, volume, storage_class = make_claim("c"), make_volume("v"), make_class("fast")
    driver = make_driver("d", storage_capacity=True)
    for item in (claim, volume, storage_class, driver):
        storage.apply(item)
    assert storage.claim("default", "c") is claim
    assert storage.claim("other", "c") is None
    assert (storage.volume("v"), storage.storage_class("fast"), storage.driver("d")) == (volume, storage_class, driver)
    assert storage.keys(PersistentVolumeClaim) == [("default", "c")]
    storage.remove(PersistentVolumeClaim, ("default", "c"))
    assert storage.claim("default", "c") is None
    assert not storage.of(PersistentVolumeClaim)


def test_a_hidden_kind_is_kept_and_not_shown() -> None:
    storage = Storage()
    storage.show_only({PersistentVolume})
    claim, volume = make_claim("c"), make_volume("v")
    for item in (claim, volume):
        storage.apply(item)
    for look in (lambda: storage.claim("default", "c"), lambda: storage.of(PersistentVolumeClaim)):
        with pytest.raises(HiddenKindError, match=r"^PersistentVolumeClaim objects are not watched"):
            look()
    assert storage.find(PersistentVolumeClaim, ("default", "c")) is claim
    assert storage.volume("v") is volume


def test_a_capacity_belongs_to_its_class() -> None:
    storage = Storage()
    storage.apply(make_capacity("a", "fast", "5Gi", EVERYWHERE))
    storage.apply(make_capacity("b", "fast", "5Gi", EVERYWHERE, largest="1Gi"))
    storage.apply(make_capacity("c", "slow", "9Gi", EVERYWHERE))
    assert sorted(most_bytes(storage, "fast")) == [1 << 30, 5 << 30]
    storage.apply(make_capacity("a", "slow", "5Gi", EVERYWHERE))
    assert most_bytes(storage, "fast") == [1 << 30]
    storage.remove(CSIStorageCapacity, ("kube-system", "b"))
    assert most_bytes(storage, "fast") == []


@pytest.mark.parametrize(
    ("capacity", "topology"),
    [
        (None, EVERYWHERE),
        ("5Gi", None),
        ("5Gi", LabelSelector(match_expressions=(SelectorRequirement("zone", "Near"),))),
    ],
)
def test_a_capacity_of_no_size_or_no_nodes_does_not_count(capacity: str | None, topology: LabelSelector | None) -> None:
    storage = Storage()
    storage.apply(make_capacity("a", "fast", capacity, topology))
    assert most_bytes(storage, "fast") == []


def test_a_malformed_quantity_changes_nothing() -> None:
    storage = Storage()
    before = make_volume("v", class_name="fast")
    storage.apply(before)
    with pytest.raises(QuantityError):
        storage.apply(make_volume("v", size="lots"))
    assert storage.volume("v") is before
    assert len(storage.free_volumes.of_class("fast")) == 1
    with pytest.raises(QuantityError):
        storage.apply(make_capacity("a", "fast", "lots", EVERYWHERE))
    assert storage.keys(CSIStorageCapacity) == []


def test_a_volume_that_goes_is_not_free_any_more() -> None:
    storage = Storage()
    storage.apply(make_volume("v", class_name="fast"))
    storage.remove(PersistentVolume, ("", "v"))
    storage.remove(PersistentVolume, ("", "v"))
    assert not storage.free_volumes.of_class("fast")


def assumed_for(volume: PersistentVolume, claim_name: str) -> PersistentVolume:
    return structs.replace(volume, spec=structs.replace(volume.spec, claim_ref=ClaimReference("default", claim_name)))


def free_names(storage: Storage) -> list[str]:
    return [free.name for volumes in storage.free_volumes.of_class("").values() for free in volumes]


def test_an_assumed_volume_is_kept_for_its_claim_until_it_is_restored() -> None:
    storage, volume = Storage(), make_volume("v")
    storage.apply(volume)
    assumed = assumed_for(volume, "c")
    storage.assume(volume, assumed)
    assert storage.latest(volume) is assumed
    assert storage.volume("v") is volume
    assert free_names(storage) == []
    assert [free.volume for free in storage.free_volumes.kept_for(("default", "c"))] == [assumed]
    storage.restore(assumed)
    assert storage.latest(volume) is volume
    assert free_names(storage) == ["v"]
    assert not storage.free_volumes.kept_for(("default", "c"))


def test_what_is_assumed_ends_when_the_object_changes_or_goes() -> None:
    storage, volume = Storage(), make_volume("v")
    storage.apply(volume)
    assumed = assumed_for(volume, "c")
    storage.assume(volume, assumed)
    storage.apply(make_volume("v"))
    assert storage.latest(volume) is assumed
    changed = make_volume("v", labels={"x": "y"})
    storage.apply(changed)
    assert storage.latest(changed) is changed
    storage.restore(assumed)
    assert free_names(storage) == ["v"]
    again = assumed_for(changed, "c")
    storage.assume(changed, again)
    storage.remove(PersistentVolume, ("", "v"))
    assert storage.latest(changed) is changed
    storage.restore(again)
    assert free_names(storage) == []


def test_only_what_follows_from_the_latest_object_is_assumed() -> None:
    storage, claim = Storage(), make_claim("c")
    with pytest.raises(OutOfSyncError, match="PersistentVolumeClaim default/c is out of sync") as gone:
        storage.assume(claim, make_claim("c", annotations={"x": "y"}))
    assert (gone.value.seen, gone.value.known) == (claim, None)
    storage.apply(claim)
    first, second = (make_claim("c", annotations={"x": value}) for value in "yz")
    storage.assume(claim, first)
    with pytest.raises(OutOfSyncError) as changed:
        storage.assume(claim, second)
    assert (changed.value.seen, changed.value.known) == (claim, first)
    storage.assume(first, second)
    storage.restore(first)
    assert storage.latest(claim) is second


def test_nothing_is_left_of_classes_whose_volumes_and_capacities_are_gone() -> None:
    storage = Storage()
    for number in range(3):
        storage.apply(make_volume(f"v{number}", class_name=f"class-{number % 2}"))
        storage.apply(make_capacity(f"c{number}", f"class-{number % 2}", "5Gi", EVERYWHERE))
        storage.apply(make_capacity(f"none-{number}", f"class-{number}", None, EVERYWHERE))
    for kind in (PersistentVolume, CSIStorageCapacity):
        for key in storage.keys(kind):
            storage.remove(kind, key)
    assert not storage._capacities
    assert not storage.free_volumes._by_class


def test_a_capacity_that_says_nothing_goes_as_it_came() -> None:
    storage = Storage()
    storage.apply(make_capacity("says-nothing", "fast", None, EVERYWHERE))
    storage.apply(make_capacity("a", "fast", "5Gi", EVERYWHERE))
    storage.remove(CSIStorageCapacity, ("kube-system", "says-nothing"))
    storage.remove(CSIStorageCapacity, ("kube-system", "never-there"))
    assert most_bytes(storage, "fast") == [5 << 30]


def test_after_each_change_the_count_is_one_that_never_was() -> None:
    storage, volume, other = Storage(), make_volume("v"), make_volume("v", labels={"x": "y"})
    assumed, again = assumed_for(volume, "c"), assumed_for(volume, "d")
    changes: list[Callable[[], None]] = [
        lambda: storage.apply(volume),
        lambda: storage.apply(make_claim("c")),
        lambda: storage.assume(volume, assumed),
        lambda: storage.restore(assumed),
        lambda: storage.assume(volume, again),
        lambda: storage.apply(other),
        lambda: storage.remove(PersistentVolume, ("", "v")),
    ]
    counts = [storage.change_count]
    for change in changes:
        change()
        assert storage.change_count > max(counts)
        counts.append(storage.change_count)

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from extender_service.cluster.volumes.free_volumes import FreeVolumes, free_volume, reach_of
from extender_service.kube.types.storage import ClaimReference, PersistentVolume
from tests.support.storage_objects import make_volume


def added(free: FreeVolumes, volume: PersistentVolume) -> None:
    found = free_volume(volume)
    assert found is not None
    free.add(found)


def names(free: FreeVolumes, class_name: str) -> dict[object, list[str]]:
    return {reach: [volume.name for volume in volumes] for reach, volumes in free.of_class(class_name).items()}


def test_volumes_are_sorted_by_size_among_those_of_equal_reach() -> None:
    free = FreeVolumes()
    here = {"kubernetes.io/hostname": ["a"]}
    volumes = [
        make_volume("large", size="10Gi", class_name="local", only=here),
        make_volume("small", size="1Gi", class_name="local", only=here),
        make_volume("everywhere", size="5Gi", class_name="local"),
        make_volume("other", class_name="other"),
    ]
    for volume in volumes:
        added(free, volume)
    assert names(free, "local") == {reach_of(volumes[0]): ["small", "large"], None: ["everywhere"]}
    free.remove("small")
    free.remove("everywhere")
    free.remove("nobody")
    assert names(free, "local") == {reach_of(volumes[0]): ["large"]}


def test_a_volume_may_be_kept_for_a_claim_in_any_phase() -> None:
    free = FreeVolumes()
    for name in ("first", "second"):
        added(free, make_volume(name, claim=ClaimReference("default", "c"), phase="Bound"))
    assert [volume.name for volume in free.kept_for(("default", "c"))] == ["first", "second"]
    assert not free.of_class("")
    free.remove("first")
    assert [volume.name for volume in free.kept_for(("default", "c"))] == ["second"]
    free.remove("second")
    assert free.kept_for(("default", "c")) == ()


@pytest.mark.parametrize("phase", ["", "Pending", "Bound", "Released"])
def test_a_volume_that_is_not_available_is_not_free(phase: str) -> None:
    assert free_volume(make_volume("v", phase=phase)) is None


def test_a_volume_that_is_being_deleted_is_not_free() -> None:
    volume = make_volume("v")
    deleted = structs.replace(volume, metadata=structs.replace(volume.metadata, deletion_timestamp="2024"))
    assert free_volume(deleted) is None


@given(sizes=st.lists(st.integers(0, 5), min_size=1), data=st.data())
def test_removing_keeps_the_others_sorted(sizes: list[int], data: st.DataObject) -> None:
    free = FreeVolumes()
    for number, size in enumerate(sizes):
        added(free, make_volume(f"v{number}", size=f"{size}Gi"))
    gone = data.draw(st.sets(st.sampled_from(range(len(sizes)))))
    for number in gone:
        free.remove(f"v{number}")
    left = sorted((size, f"v{number}") for number, size in enumerate(sizes) if number not in gone)
    assert [volume.name for volume in free.of_class("").get(None, ())] == [name for _, name in left]


def test_a_volume_that_does_not_tell_its_size_is_smaller_than_any_claim() -> None:
    volume = make_volume("v")
    unsized = free_volume(structs.replace(volume, spec=structs.replace(volume.spec, capacity={})))
    assert unsized is not None
    assert unsized.capacity_nanos == 0

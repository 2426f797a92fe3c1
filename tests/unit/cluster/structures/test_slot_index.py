from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.structures.slot_index import SlotIndex

steps = st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 3)))


@given(steps=steps)
def test_slots_are_those_that_were_added_and_not_discarded(steps: list[tuple[bool, str, int]]) -> None:
    index: SlotIndex[str] = SlotIndex()
    plain: dict[str, set[int]] = {thing: set() for thing in "abc"}
    for is_added, thing, slot in steps:
        (index.add if is_added else index.discard)(thing, slot)
        (plain[thing].add if is_added else plain[thing].discard)(slot)
        assert {thing: set(index.holders(thing)) for thing in "abc"} == plain
        assert sorted(index.slots("a", "b").tolist()) == sorted(plain["a"] | plain["b"])


def test_what_nobody_has_takes_no_room() -> None:
    index: SlotIndex[str] = SlotIndex()
    index.add("a", 1)
    index.add("a", 2)
    index.discard("a", 1)
    index.discard("a", 2)
    assert index._slots == {}


def test_pods_that_share_several_things_are_told_once_and_stay_with_each() -> None:
    index: SlotIndex[str] = SlotIndex()
    for thing, slots in (("a", (1, 2)), ("b", (2, 3)), ("c", (4,))):
        for slot in slots:
            index.add(thing, slot)
    assert set(index.holders("a", "b", "c", "nobody has")) == {1, 2, 3, 4}
    assert sorted(index.slots("c", "b").tolist()) == [2, 3, 4]
    assert (set(index.holders("a")), set(index.holders("b"))) == ({1, 2}, {2, 3})

from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.structures.interning import Interner


def test_equal_values_share_a_number() -> None:
    interner: Interner[tuple[str, ...]] = Interner()
    assert interner.hold(("a", "b")) == interner.hold(("a", "b")) == 0
    assert interner.hold(("b",)) == 1
    assert (len(interner), interner.size) == (2, 2)
    assert interner.values == [("a", "b"), ("b",)]


def test_a_value_is_known_by_number_until_its_last_holder_lets_go() -> None:
    interner: Interner[str] = Interner()
    number = interner.hold("a")
    interner.hold("a")
    assert not interner.release(number)
    assert interner.number_of("a") == number
    assert interner.release(number)
    assert interner.number_of("a") == -1
    assert interner.values == [None]


def test_the_number_of_a_forgotten_value_is_given_to_another() -> None:
    interner: Interner[str] = Interner()
    interner.hold("a")
    interner.hold("b")
    interner.release(0)
    assert interner.hold("c") == 0
    assert dict(interner) == {0: "c", 1: "b"}


def test_the_version_grows_exactly_when_a_number_gets_a_value() -> None:
    interner: Interner[str] = Interner()
    interner.hold("a")
    before = interner.version
    interner.hold("a")
    interner.release(0)
    interner.release(0)
    assert interner.version == before
    interner.hold("b")
    assert interner.version > before


def test_a_copy_changes_on_its_own() -> None:
    interner: Interner[str] = Interner()
    interner.hold("a")
    twin = interner.copy()
    twin.hold("b")
    twin.release(0)
    assert (dict(interner), dict(twin)) == ({0: "a"}, {1: "b"})
    assert interner.hold("c") == 1


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcde"))))
def test_any_sequence_of_holds_and_releases_keeps_what_is_held_and_nothing_else(
    steps: list[tuple[bool, str]],
) -> None:
    interner: Interner[str] = Interner()
    held: list[str] = []
    most = 0
    for is_hold, value in steps:
        if is_hold:
            interner.hold(value)
            held.append(value)
        elif value in held:
            interner.release(interner.number_of(value))
            held.remove(value)
        most = max(most, len(set(held)))
        assert {value for _, value in interner} == set(held)
        assert all(interner.values[interner.number_of(value)] == value for value in held)
        assert sum(value is not None for value in interner.values) == len(interner) == len(set(held))
        assert interner.size == most
    for value in held:
        interner.release(interner.number_of(value))
    assert len(interner) == 0
    assert interner.values == [None] * most

from collections.abc import Iterator

import pytest

from extender_service import caches
from extender_service.caches import CacheSize, cached

computed: list[str] = []


def shout(text: str) -> str:
    computed.append(text)
    return text.upper()


def repeat(text: str, times: int) -> str:
    computed.append(text)
    return text * times


@pytest.fixture(autouse=True)
def only_ours() -> Iterator[None]:
    known = dict(caches._functions)
    computed.clear()
    yield
    caches._functions.clear()
    caches._functions.update(known)


def our_size(name: str) -> CacheSize:
    return next(size for size in caches.caches() if size.name == f"{__name__}.{name}")


def test_what_is_small_is_computed_once() -> None:
    loud = cached(most_entries=2, most_entry_bytes=500, most_size=3)(shout)
    assert [loud("abc"), loud("abc")] == ["ABC", "ABC"]
    assert computed == ["abc"]
    assert our_size("shout") == CacheSize(f"{__name__}.shout", 1, 500, 1000)


def test_what_is_large_is_computed_each_time_and_not_kept() -> None:
    loud = cached(most_entries=2, most_entry_bytes=500, most_size=3)(shout)
    assert [loud("abcd"), loud("abcd")] == ["ABCD", "ABCD"]
    assert computed == ["abcd", "abcd"]
    assert our_size("shout").entries == 0


def test_the_least_recently_used_goes_first() -> None:
    loud = cached(most_entries=2, most_entry_bytes=500, most_size=3)(shout)
    for text in ("a", "b", "a", "c", "a", "b"):
        loud(text)
    assert computed == ["a", "b", "c", "b"]
    assert our_size("shout").entries == 2


def test_the_first_argument_is_measured_and_all_of_them_are_the_key() -> None:
    repeated = cached(most_entries=8, most_entry_bytes=500, most_size=3)(repeat)
    assert [repeated("ab", 2), repeated("ab", 3), repeated("ab", 2), repeated("abcd", 1)] == [
        "abab",
        "ababab",
        "abab",
        "abcd",
    ]
    assert computed == ["ab", "ab", "abcd"]


def test_size_may_be_measured_in_another_way() -> None:
    loud = cached(most_entries=2, most_entry_bytes=500, most_size=1, size=lambda text: text.count("a"))(shout)
    for text in ("bbbbbb", "bbbbbb", "aa", "aa"):
        loud(text)
    assert computed == ["bbbbbb", "aa", "aa"]


def test_an_error_is_not_kept() -> None:
    def fail(text: str) -> str:
        computed.append(text)
        raise ValueError(text)

    failing = cached(most_entries=2, most_entry_bytes=500, most_size=3)(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="abc"):
            failing("abc")
    assert computed == ["abc", "abc"]

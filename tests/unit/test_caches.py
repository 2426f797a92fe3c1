import importlib
import pkgutil
import re
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extender_service
from extender_service import caches
from extender_service.caches import CacheSize, LastFew, LruCache, cached, size_of
from extender_service.cluster.selection.label_sets import LabelSet
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.hostile_keys import HOSTILE, Ask
from tests.support.memory import MIB, kept_bytes

H = TypeVar("H", bound=Hashable)
V = TypeVar("V")

computed: list[str] = []


def shout(text: str) -> str:
    computed.append(text)
    return text.upper()


def repeat(text: str, times: int) -> str:
    computed.append(text)
    return text * times


@pytest.fixture(autouse=True)
def fresh_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No objects' caches, and all functions' empty."""
    monkeypatch.setattr(caches, "_objects", WeakSet())
    known = dict(caches._functions)
    for results in known.values():
        results.clear()
        results._older.clear()
    computed.clear()
    yield
    caches._functions.clear()
    caches._functions.update(known)


def size_by_name(name: str) -> CacheSize:
    return next(size for size in caches.caches() if size.name == name)


def test_what_is_small_is_computed_once() -> None:
    loud = cached("ours", most_entries=2, most_entry_bytes=500, most_size=3)(shout)
    assert [loud("abc"), loud("abc")] == ["ABC", "ABC"]
    assert computed == ["abc"]
    assert size_by_name("ours") == CacheSize("ours", 1, 500, 1000)


def test_what_is_large_is_computed_each_time_and_not_kept() -> None:
    loud = cached("ours", most_entries=2, most_entry_bytes=500, most_size=3)(shout)
    assert [loud("abcd"), loud("abcd")] == ["ABCD", "ABCD"]
    assert computed == ["abcd", "abcd"]
    assert size_by_name("ours").entries == 0


def test_what_is_asked_for_now_and_then_is_kept_and_what_is_not_goes() -> None:
    loud = cached("ours", most_entries=4, most_entry_bytes=500, most_size=3)(shout)
    for number in range(20):
        assert loud("a") == "A"
        assert loud(str(number)) == str(number)
        assert size_by_name("ours").entries <= 4
    assert computed == ["a", *[str(number) for number in range(20)]]
    loud("1")
    assert computed[-1] == "1"


def test_the_first_argument_is_measured_and_all_of_them_are_the_key() -> None:
    repeated = cached("ours", most_entries=8, most_entry_bytes=500, most_size=3)(repeat)
    assert [repeated("ab", 2), repeated("ab", 3), repeated("ab", 2)] == ["abab", "ababab", "abab"]
    assert [repeated("abcd", 1), repeated("abcd", 1)] == ["abcd", "abcd"]
    assert computed == ["ab", "ab", "abcd", "abcd"]


def test_size_may_be_measured_in_another_way() -> None:
    loud = cached("ours", most_entries=2, most_entry_bytes=500, most_size=1, size=lambda text: text.count("a"))(shout)
    for text in ("bbbbbb", "bbbbbb", "aa", "aa"):
        loud(text)
    assert computed == ["bbbbbb", "aa", "aa"]


def test_an_error_is_not_kept() -> None:
    @cached("ours", most_entries=2, most_entry_bytes=500, most_size=3)
    def failing(text: str) -> str:
        computed.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="abc"):
            failing("abc")
    assert computed == ["abc", "abc"]
    assert size_by_name("ours").entries == 0


def found(cache: LruCache[H, V], key: H) -> V | None:
    return cache[key]


def test_a_value_that_is_used_now_and_then_is_kept_and_one_that_is_not_goes() -> None:
    cache: LruCache[str, int] = LruCache("ours", most_entries=4, most_bytes=MIB)
    cache.keep("a", 1, 10)
    for number in range(20):
        assert cache["a"] == 1
        cache.keep(str(number), number, 10)
        assert len(cache) <= 4
    assert (found(cache, "19"), "19" in cache, found(cache, "10"), "10" in cache) == (19, True, None, False)
    assert sorted(key for key, _ in cache.items()) == sorted(["a", "18", "19"])
    assert sorted(cache.values()) == [1, 18, 19]


def test_and_so_where_they_take_too_many_bytes() -> None:
    cache: LruCache[str, int] = LruCache("ours", most_entries=100, most_bytes=8000)
    for number, key in enumerate("abcdefgh"):
        cache.keep(key, number, 750)
    assert size_by_name("ours") == CacheSize("ours", 8, 8000, 8000)
    assert cache["a"] == 0
    assert [key for key in "abcdefgh" if key in cache] == ["a", "e", "f", "g", "h"]
    cache.keep("h", 9, 1750)
    assert (cache["h"], cache["g"]) == (9, 6)
    cache.keep("large", 10, 1751)
    assert "large" not in cache
    for size_bytes in (1750, 10, 1751):
        cache.keep("a", 11, size_bytes)
        assert cache.size_bytes == sum([*cache._sizes.values(), *cache._older_sizes.values()]) <= 8000
    assert found(cache, "a") is None
    cache.forget("g")
    cache.forget("none")
    assert found(cache, "g") is None
    cache.clear()
    assert size_by_name("ours") == CacheSize("ours", 0, 0, 8000)


def test_beyond_a_few_a_key_is_admitted_from_the_second_time_on() -> None:
    cache: LruCache[int, int] = LruCache(None, most_entries=64, most_bytes=MIB)
    for number in range(16):
        assert cache.admits(number)
        cache.keep(number, number, 10)
    assert [cache.admits(16) for _ in range(2)] == [False, True]


@given(st.lists(st.tuples(st.sampled_from(["keep", "use", "forget"]), st.integers(0, 12), st.integers(0, 2500))))
def test_whatever_happens_a_cache_keeps_to_its_bounds_and_has_what_was_kept_last(
    steps: list[tuple[str, int, int]],
) -> None:
    cache: LruCache[int, int] = LruCache(None, most_entries=6, most_bytes=9000)
    last: dict[int, int] = {}
    for step, key, size_bytes in steps:
        match step:
            case "keep":
                cache.keep(key, size_bytes, size_bytes)
                last[key] = size_bytes
            case "use":
                assert found(cache, key) in (None, last.get(key))
            case "forget":
                cache.forget(key)
                assert found(cache, key) is None
        assert len(cache) == len(list(cache.items())) <= 6
        assert cache.size_bytes == sum(value + 250 for value in cache.values()) <= 9000
        assert all(last[key] == value for key, value in cache.items())


def test_of_the_last_few_the_oldest_goes_first() -> None:
    few: LastFew[str, int] = LastFew("ours", most_entries=2, most_entry_bytes=10)
    for key, value, size_bytes in (("a", 1, 10), ("b", 2, 5), ("c", 3, 5), ("large", 4, 11)):
        few.keep(key, value, size_bytes)
    assert list(few.entries) == [("b", 2, 5), ("c", 3, 5)]
    assert size_by_name("ours") == CacheSize("ours", 2, 10, 20)
    few.forget(lambda value: value == 2)
    assert list(few.entries) == [("c", 3, 5)]
    for value in range(3):
        few.keep("d", value, 1)
    assert len(few.entries) == 2


def test_caches_of_one_name_are_added_up_for_as_long_as_they_exist() -> None:
    few: list[LastFew[str, int]] = [LastFew("ours", most_entries=2, most_entry_bytes=10) for _ in range(2)]
    for one in few:
        one.keep("a", 1, 3)
    assert size_by_name("ours") == CacheSize("ours", 2, 6, 40)
    del few[0], one
    assert size_by_name("ours") == CacheSize("ours", 1, 3, 20)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: f"text-{number}-{'x' * 1000}",
        lambda number: tuple(f"{number}-{at}" for at in range(100)),
        lambda number: frozenset(f"{number}-{at}" for at in range(100)),
        lambda number: LabelSet("a", {f"{number}-{at}": f"{at}-{number}" for at in range(100)}),
        lambda number: [np.zeros(1000 + number)],
        lambda number: [np.zeros((10, 100 + number))[2:]],
        lambda number: ((((number + 1000,),),),),
    ],
)
def test_the_size_of_a_value_is_what_it_takes(make: Callable[[int], object]) -> None:
    kept: list[object] = []
    taken = kept_bytes(lambda: kept.extend(make(number) for number in range(100)))
    assert 0.9 * taken <= sum(size_of(thing) for thing in kept) + kept.__sizeof__() <= 1.5 * taken


def test_a_size_beyond_what_matters_is_not_measured_to_the_end() -> None:
    many = tuple(range(1000, 100_000))
    assert 100_000 < size_of((many, many), most=100_000) < 2_000_000


def largest(make: Callable[[], Ask], name: str) -> int:
    """How many things a key may have and still be kept."""
    numbers = count(500_000)

    def is_kept(things: int) -> bool:
        ask = make()
        before = size_by_name(name).entries if name in caches._functions else 0
        ask(next(numbers), things)
        return size_by_name(name).entries > before

    things = 1
    assert is_kept(things)
    while is_kept(2 * things) and things < 1 << 17:
        things *= 2
    step = things // 2
    while step:
        if is_kept(things + step):
            things += step
        step //= 2
    return things


def cache_by_name(name: str) -> Any:
    return next(cache for cache in [*caches._functions.values(), *caches._objects] if cache.current_size().name == name)


# It has room for 10,000 pods of a usual size, but only for a few of the largest.
BOUND_BY_BYTES = "refused pods"


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, ways in HOSTILE.items() for way in range(len(ways))])
def test_hostile_keys_take_no_more_than_the_bound(name: str, way: int) -> None:
    things = largest(HOSTILE[name][way], name)
    ask = HOSTILE[name][way]()
    most_entries = getattr(cache_by_name(name), "most_entries", 200)
    if name == BOUND_BY_BYTES:
        most_entries = 40

    def fill() -> None:
        for number in range(most_entries):
            ask(number, things)

    for results in caches._functions.values():
        results.clear()
        results._older.clear()
    taken = kept_bytes(fill)
    assert taken <= sum(size.size_bytes for size in caches.caches())
    for number in range(most_entries, most_entries + 10):
        ask(number, things)
    assert all(size.size_bytes <= size.most_bytes for size in caches.caches())


# What these keep is as much as this program has: a model of each type, the page, a decoder of each struct, sets of the
# plugins that are configured, what pods request by the rules of a release.
KEYED_BY_THE_PROGRAM = {
    "cluster/amounts/requests.py",
    "config/known_gates.py",
    "config/strict_objects.py",
    "extender/docs_page.py",
    "kube/parsing/known_fields.py",
    "scheduler/fit_error.py",
}
# Tables that their writer updates, in an order that a dict would be slow to give.
ORDERED_TABLES = {"kube/writing/event_recorder.py", "queue/in_flight_events.py", "scheduling/write_turns.py"}


def test_no_other_module_makes_a_cache_of_its_own() -> None:
    package = Path(extender_service.__file__).parent
    by_hand = re.compile(r"lru_cache|OrderedDict|maxlen|functools\.cache\b|import cache\b")
    found = {
        str(module.relative_to(package))
        for module in package.rglob("*.py")
        if by_hand.search(module.read_text()) and module.name != "caches.py"
    }
    assert found == KEYED_BY_THE_PROGRAM | ORDERED_TABLES


def test_all_caches_are_attacked() -> None:
    for module in pkgutil.walk_packages(extender_service.__path__, "extender_service."):
        importlib.import_module(module.name)
    service = ExtenderWorld(mode="replace")
    assert {size.name for size in caches.caches()} == set(HOSTILE), service

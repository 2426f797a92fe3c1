import heapq
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from extender_service.queue.keyed_heap import KeyedHeap

Item = tuple[str, int]


def make_heap() -> KeyedHeap[Item]:
    return KeyedHeap(lambda item: item[1])


def drained(heap: KeyedHeap[Item]) -> list[Item]:
    items = []
    while (item := heap.pop()) is not None:
        items.append(item)
    return items


keys = st.sampled_from([f"k{number}" for number in range(8)])
steps = st.lists(st.one_of(st.tuples(keys, st.integers(0, 4)), keys, st.none()), max_size=300)


@given(steps)
def test_items_come_out_in_order_and_equal_ones_as_they_came(steps: list[Item | str | None]) -> None:
    heap = make_heap()
    model: dict[str, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            key, order = step
            heap.add(key, step)
            if key not in model or model[key][0] != order:
                model[key] = (order, number)
        elif step is not None:
            assert heap.remove(step) is (model.pop(step, None) is not None)
        else:
            first = min(model, key=lambda key: model[key], default=None)
            expected = None if first is None else (first, model.pop(first)[0])
            assert heap.peek() == expected
            assert heap.pop() == expected
        assert len(heap) == len(model)
    assert {key: heap.get(key) for key in model} == {key: (key, order) for key, (order, _) in model.items()}
    assert sorted(heap) == sorted((key, order) for key, (order, _) in model.items())
    assert drained(heap) == [(key, model[key][0]) for key in sorted(model, key=lambda key: model[key])]


def test_removed_items_do_not_pile_up() -> None:
    heap = make_heap()
    heap.add("stays", ("stays", 0))
    for number in range(10_000):
        heap.add("comes and goes", ("comes and goes", number + 1))
        heap.remove("comes and goes")
    assert len(heap._heap) < 200
    assert drained(heap) == [("stays", 0)]


def test_an_absent_key_is_no_item() -> None:
    heap = make_heap()
    assert heap.get("a") is None
    assert "a" not in heap
    assert heap.peek() is None
    assert heap.pop() is None
    assert not heap.remove("a")


def test_popping_compares_few_items() -> None:
    compared = 0

    def counting(item: int) -> "_Counted":
        return _Counted(item, count)

    def count() -> None:
        nonlocal compared
        compared += 1

    heap: KeyedHeap[int] = KeyedHeap(counting)
    for number in range(4096):
        heap.add(str(number), number)
    compared = 0
    for _ in range(100):
        heap.pop()
    assert compared < 100 * 3 * 13  # some for each of 12 levels, and never one for each item
    assert heapq.nsmallest(1, heap) == [100]


class _Counted:
    def __init__(self, number: int, count: Callable[[], None]) -> None:
        self.number = number
        self.count = count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Counted) and self.number == other.number

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: "_Counted") -> bool:
        self.count()
        return self.number < other.number

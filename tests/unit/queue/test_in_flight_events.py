from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.queue.in_flight_events import InFlightEvent, InFlightEvents

EVENT = ClusterEvent(NODE, ActionType.ADD, "NodeAdd")


def objects(events: Any) -> list[Any]:
    return [event.new for event in events]


def test_a_pod_misses_what_happens_after_it_left() -> None:
    events = InFlightEvents()
    events.start("a")
    events.record(EVENT, None, 1)
    events.start("b")
    events.record(EVENT, None, 2)
    assert objects(events.since("a")) == [1, 2]
    assert objects(events.since("b")) == [2]
    assert list(events) == ["a", InFlightEvent(EVENT, None, 1), "b", InFlightEvent(EVENT, None, 2)]


def test_events_go_with_the_last_pod_that_missed_them() -> None:
    events = InFlightEvents()
    events.start("a")
    events.record(EVENT, None, 1)
    events.start("b")
    events.record(EVENT, None, 2)
    events.done("a")
    assert objects(events.since("b")) == [2]
    assert list(events) == ["b", InFlightEvent(EVENT, None, 2)]
    events.done("b")
    events.done("b")
    assert list(events) == []


def test_without_pods_in_flight_nothing_is_kept() -> None:
    events = InFlightEvents()
    events.record(EVENT, None, 1)
    assert list(events) == []
    assert not events


def test_a_pod_that_leaves_again_leaves_nothing_behind() -> None:
    events = InFlightEvents()
    events.start("a")
    events.record(EVENT, None, 1)
    events.start("a")
    assert list(events) == ["a"]
    assert len(events) == 1


def test_a_pod_that_stays_long_does_not_keep_the_places_of_dropped_events() -> None:
    events = InFlightEvents()
    for number in range(10_000):
        events.start(f"pod {number}")
        events.record(EVENT, None, number)
        events.done(f"pod {number - 1}")
    assert len(events._events) < 200
    assert objects(events.since("pod 9999")) == [9999]


steps = st.lists(st.one_of(st.tuples(st.sampled_from("ud"), st.sampled_from("abcd")), st.just(("e", ""))), max_size=400)


@given(steps)
def test_it_is_as_one_list_of_pods_and_events(steps: list[tuple[str, str]]) -> None:
    """kube-scheduler's inFlightEvents."""
    events = InFlightEvents()
    entries: list[str | int] = []
    for number, (what, uid) in enumerate(steps):
        if what == "e":
            events.record(EVENT, None, number)
            entries += [number] if entries else []
            continue
        if uid in entries:
            entries.remove(uid)
        while entries and isinstance(entries[0], int):
            entries.pop(0)
        if what == "u":
            events.start(uid)
            entries.append(uid)
        else:
            events.done(uid)
    assert [entry if isinstance(entry, str) else entry.new for entry in events] == entries
    for uid in (entry for entry in entries if isinstance(entry, str)):
        after = entries[entries.index(uid) :]
        assert objects(events.since(uid)) == [entry for entry in after if isinstance(entry, int)]

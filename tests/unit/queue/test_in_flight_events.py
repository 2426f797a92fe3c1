from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender_service.framework.cluster_event import NODE, POD, ActionType, ClusterEvent
from extender_service.queue.in_flight_events import POD_POPPED, InFlightEvent, InFlightEvents

EVENT = ClusterEvent(NODE, ActionType.ADD, "NodeAdd")
OTHER = ClusterEvent(NODE, ActionType.DELETE, "NodeDelete")
THIRD = ClusterEvent(POD, ActionType.DELETE, "PodDelete")
KINDS = {"e": EVENT, "o": OTHER, "t": THIRD}


def always(event: ClusterEvent) -> bool:
    return True


def objects(events: Any) -> list[Any]:
    return [event.new for event in events]


def test_a_pod_misses_what_happens_after_it_left() -> None:
    events = InFlightEvents()
    events.start("a")
    events.record(EVENT, None, 1)
    events.start("b")
    events.record(EVENT, None, 2)
    assert objects(events.since("a", always)) == [1, 2]
    assert objects(events.since("b", always)) == [2]
    assert list(events) == ["a", InFlightEvent(0, EVENT, None, 1), "b", InFlightEvent(1, EVENT, None, 2)]


def test_events_go_with_the_last_pod_that_missed_them() -> None:
    events = InFlightEvents()
    events.start("a")
    events.record(EVENT, None, 1)
    events.start("b")
    events.record(EVENT, None, 2)
    events.done("a")
    assert objects(events.since("b", always)) == [2]
    assert list(events) == ["b", InFlightEvent(1, EVENT, None, 2)]
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
    assert len(events._kinds[EVENT]._events) < 200
    assert objects(events.since("pod 9999", always)) == [9999]


def test_kinds_that_do_not_matter_are_not_looked_at() -> None:
    events = InFlightEvents()
    events.start("a")
    for number in range(1000):
        events.record(EVENT, None, number)
        events.record(OTHER if number % 100 else THIRD, None, number)
    asked: list[ClusterEvent] = []

    def is_third(event: ClusterEvent) -> bool:
        asked.append(event)
        return event == THIRD

    assert objects(events.since("a", is_third)) == list(range(0, 1000, 100))
    assert asked == [EVENT, THIRD, OTHER]


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ud"), st.sampled_from("abcd")), st.tuples(st.sampled_from("eot"), st.just(""))
    ),
    max_size=400,
)


@given(steps, st.frozensets(st.sampled_from(list(KINDS.values()))))
def test_it_is_as_one_list_of_pods_and_events(steps: list[tuple[str, str]], wanted: frozenset[ClusterEvent]) -> None:
    """kube-scheduler's inFlightEvents."""
    events = InFlightEvents()
    entries: list[str | int] = []
    for number, (what, uid) in enumerate(steps):
        if what in KINDS:
            events.record(KINDS[what], None, number)
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
    kept = Counter(KINDS[steps[entry][0]].label for entry in entries if isinstance(entry, int))
    pods = [entry for entry in entries if isinstance(entry, str)]
    assert events.counts() == kept + Counter({POD_POPPED: len(pods)})
    for uid in pods:
        after = [entry for entry in entries[entries.index(uid) :] if isinstance(entry, int)]
        assert objects(events.since(uid, always)) == after
        assert events.count_since(uid, always) == len(after)
        found = [(event.event, event.new) for event in events.since(uid, wanted.__contains__)]
        of_kinds = [(KINDS[steps[number][0]], number) for number in after]
        assert found == [each for each in of_kinds if each[0] in wanted]
        assert events.count_since(uid, wanted.__contains__) == len(found)

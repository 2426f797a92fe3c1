"""The pods that wait, as the watch shows them, and who hears that one of them is not to be scheduled any more."""

from collections.abc import Callable

import msgspec
import pytest

from extender_service.kube.types.core import Pod
from extender_service.scheduler.pod_lister import PodLister
from tests.support.objects import make_pod

KEY = "default/p"


def going() -> Pod:
    """The pod p, being deleted."""
    pod = make_pod("p")
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


def test_a_pod_is_listed_in_its_last_version_until_it_is_taken() -> None:
    lister, first, second = PodLister(), make_pod("p"), make_pod("p", nominated="a")
    assert lister.put(first) is None
    assert lister.put(second) is first
    assert (lister.get(KEY), [*lister], len(lister), KEY in lister) == (second, [second], 1, True)
    assert lister.take(KEY) is second
    assert (lister.get(KEY), len(lister), KEY in lister) == (None, 0, False)
    assert lister.take(KEY) is None


def test_a_pod_has_ended_until_the_watch_shows_that_or_another_one_or_it_is_back() -> None:
    lister = PodLister()
    ways: tuple[Callable[[], object], ...] = (
        lambda: lister.take(KEY),
        lambda: lister.put(make_pod("p", uid="another")),
        lambda: lister.note_returned(KEY),
    )
    for forget in ways:
        lister.put(make_pod("p"))
        lister.note_ended(KEY)
        lister.put(make_pod("p", nominated="a"))
        assert lister.has_ended(KEY)
        forget()
        assert not lister.has_ended(KEY)


@pytest.mark.parametrize("shown", [None, going(), make_pod("p", uid="another")])
def test_who_waits_for_the_end_of_a_pod_hears_once_that_it_is_gone_or_going(shown: Pod | None) -> None:
    lister, ended = PodLister(), list[str]()
    lister.put(make_pod("p"))
    with lister.at_end_of(KEY, lambda: ended.append("p")):
        lister.put(make_pod("p"))
        lister.put(make_pod("q"))
        assert ended == []
        if shown is None:
            lister.take(KEY)
        else:
            lister.put(shown)
        assert ended == ["p"]
        lister.take(KEY)
    assert ended == ["p"]


def test_who_waits_no_more_for_the_end_of_a_pod_does_not_hear_of_it() -> None:
    lister, ended = PodLister(), list[str]()
    lister.put(make_pod("p"))
    with lister.at_end_of(KEY, lambda: ended.append("p")):
        pass
    lister.take(KEY)
    assert ended == []

"""Nominations that were decided: they count until the watch shows them, or something else instead."""

import msgspec
import pytest

from extender_service.kube.types.core import Pod, PodStatus
from extender_service.scheduler.pod_lister import PodLister
from tests.support.objects import make_pod


def version(number: int, nominated: str = "", uid: str = "first") -> Pod:
    """A version of the pod p."""
    pod = make_pod("p", uid=uid)
    metadata = msgspec.structs.replace(pod.metadata, resource_version=str(number))
    return msgspec.structs.replace(pod, metadata=metadata, status=PodStatus(nominated_node_name=nominated))


def decided(lister: PodLister) -> str:
    """The nominated node of p as attempts see it."""
    pod = lister.get("default/p")
    assert pod is not None
    return lister.nominations.as_decided(pod).status.nominated_node_name


def test_a_nomination_counts_until_the_watch_shows_it_and_from_then_on_what_the_watch_shows() -> None:
    lister = PodLister()
    lister.put(version(1))
    lister.nominations.decide(version(1), "a")
    lister.put(version(2))
    assert decided(lister) == "a"
    lister.put(version(3, "a"))
    assert lister.nominations.is_shown(version(1), "a")
    lister.put(version(4))
    assert decided(lister) == ""


@pytest.mark.parametrize(("first", "last"), [("a", ""), ("", "a")])
def test_an_earlier_write_that_the_watch_shows_late_does_not_replace_what_was_decided_since(
    first: str, last: str
) -> None:
    lister = PodLister()
    lister.put(version(1, last))
    lister.nominations.decide(version(1), first)
    lister.nominations.decide(version(1), last)
    lister.put(version(1, last))  # a list shows the same again
    lister.put(version(2, first))
    assert decided(lister) == last
    assert not lister.nominations.is_shown(version(1), first)
    lister.put(version(3, last))
    lister.put(version(4, first))
    assert decided(lister) == first


def test_what_was_decided_about_a_pod_is_not_about_another_one_of_its_name() -> None:
    lister = PodLister()
    lister.put(version(1))
    lister.nominations.decide(version(1), "a")
    lister.put(version(2, uid="second"))
    assert decided(lister) == ""
    lister.nominations.decide(version(1), "a")
    assert decided(lister) == ""


def test_a_pod_that_goes_takes_its_nomination_along() -> None:
    lister = PodLister()
    lister.put(version(1))
    lister.nominations.decide(version(1), "a")
    pod = lister.take("default/p")
    assert pod is not None
    assert pod.status.nominated_node_name == "a"
    lister.put(version(2))
    assert decided(lister) == ""


def test_a_pod_that_goes_before_the_watch_shows_that_its_nomination_is_withdrawn_takes_that_along() -> None:
    lister = PodLister()
    lister.put(version(1, "a"))
    lister.nominations.decide(version(1, "a"), "")
    pod = lister.take("default/p")
    assert pod is not None
    assert pod.status.nominated_node_name == "a"
    lister.put(version(2, "b"))
    assert decided(lister) == "b"

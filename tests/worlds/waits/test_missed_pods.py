"""What plugins that rejected a pod miss of other pods is excused, and nothing else."""

from typing import Final

import pytest

from extender_service.kube.types.core import LabelSelector, Pod, TopologySpreadConstraint
from tests.support.clusters.queue_worlds import changed
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod
from tests.worlds.api_server.kinds import PODS
from tests.worlds.waits.waiting import BY_LABEL, LONELY, TOO_LARGE, Waiting, anti_affinity, apart_from, near_to, term

TWO_TERMS: Final = apart_from(term("x"), term("y"))
ONE_TERM: Final = apart_from(term("x"))
BY_NAMESPACE: Final = apart_from(BY_LABEL)
_CONSTRAINT: Final = TopologySpreadConstraint(1, "rack", "DoNotSchedule", LabelSelector({"app": "x"}))
SPREAD: Final = changed(make_pod("p"), topology_spread_constraints=(_CONSTRAINT,))

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.mark.parametrize(
    ("minor", "pod", "app", "is_excused"),
    [
        (34, TWO_TERMS, "x", True),
        (34, TWO_TERMS, "z", False),  # it was not kept out by this one
        (34, ONE_TERM, "x", False),  # the end of this pod wakes it
        (34, BY_NAMESPACE, "x", True),  # to hints, namespaces have no labels
        (34, LONELY, "x", False),
        (37, TWO_TERMS, "x", False),
        (37, BY_NAMESPACE, "x", True),
        (31, TWO_TERMS, "x", False),  # without hints, the end of any pod wakes it
    ],
)
@in_event_loop
async def test_a_pod_has_ended_that_kept_this_one_out(minor: int, pod: Pod, app: str, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod, rejected_by="InterPodAffinity")
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    assert not waiting.is_excused()
    waiting.etcd.delete(PODS, "default/q")
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "pod", "app", "is_excused"),
    [
        (34, near_to(BY_LABEL), "x", True),  # to hints, namespaces have no labels
        (37, near_to(BY_LABEL), "x", True),
        (34, near_to(BY_LABEL), "z", False),  # the affinity means others
        (34, near_to(term("x")), "x", False),  # that this pod comes wakes it
        (34, near_to(term("x"), BY_LABEL), "x", True),
        (34, near_to(term("z"), BY_LABEL), "x", False),  # one pod must match all terms
        (34, TWO_TERMS, "x", False),  # a pod that comes lets no one in that is to be apart from it
        (31, near_to(BY_LABEL), "x", False),  # without hints, the labels count
    ],
)
@in_event_loop
async def test_a_pod_has_come_to_a_node_that_affinity_means(minor: int, pod: Pod, app: str, is_excused: bool) -> None:
    waiting = Waiting(minor, pod=pod, rejected_by="InterPodAffinity")
    waiting.put_pod("q", "", {"app": app})
    waiting.look()
    assert not waiting.is_excused()
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(("app", "is_excused"), [("z", True), ("x", False)])
@in_event_loop
async def test_a_pod_has_got_labels_that_affinity_means(app: str, is_excused: bool) -> None:
    waiting = Waiting(34, pod=near_to(BY_LABEL), rejected_by="InterPodAffinity")
    waiting.put_pod("q", "b", {"app": app})
    waiting.look()
    waiting.try_again(2.0)
    waiting.put_pod("q", "b", {"app": "x", "is": "changed"})
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "app", "rejected_by", "is_excused"),
    [
        (34, "p", "InterPodAffinity", True),
        (34, "x", "InterPodAffinity", False),  # its anti-affinity means others
        (34, "p", "NodeResourcesFit", False),
        (36, "p", "InterPodAffinity", False),
    ],
)
@in_event_loop
async def test_a_pod_has_ended_whose_anti_affinity_kept_this_one_out(
    minor: int, app: str, rejected_by: str, is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=changed(TOO_LARGE, labels={"app": "p"}), rejected_by=rejected_by)
    waiting.put_pod("q", "b", affinity=anti_affinity(app))
    waiting.look()
    waiting.etcd.delete(PODS, "default/q")
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "labels", "rejected_by", "is_excused"),
    [
        (31, {"app": "x"}, "PodTopologySpread", True),
        (37, {"app": "x"}, "PodTopologySpread", True),
        (37, {"app": "z"}, "PodTopologySpread", False),  # no constraint counts it
        (37, {"app": "x"}, "NodeResourcesFit", False),
    ],
)
@in_event_loop
async def test_a_pod_that_is_being_deleted_counts_no_more_for_spread(
    minor: int, labels: dict[str, str], rejected_by: str, is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=SPREAD, rejected_by=rejected_by)
    waiting.put_pod("q", "b", labels)
    waiting.look()
    assert not waiting.is_excused()
    waiting.mark("q")
    waiting.look()
    assert waiting.is_excused() == is_excused


@in_event_loop
async def test_that_a_pod_which_was_being_deleted_is_gone_wakes_one_that_spreads() -> None:
    waiting = Waiting(34, pod=SPREAD)
    waiting.put_pod("q", "b", {"app": "x"})
    waiting.mark("q")
    waiting.look()
    waiting.etcd.delete(PODS, "default/q")
    waiting.look()
    assert not waiting.is_excused()


@in_event_loop
async def test_a_pod_that_was_being_deleted_before_the_last_attempt_did_not_count_then() -> None:
    waiting = Waiting(34, pod=SPREAD)
    waiting.put_pod("q", "b", {"app": "x"})
    waiting.mark("q")
    waiting.look()
    waiting.try_again()
    assert not waiting.is_excused()


@pytest.mark.parametrize(
    ("pod", "rejected_by", "labels", "is_excused"),
    [
        (near_to(BY_LABEL), "InterPodAffinity", {"color": "blue"}, True),
        (near_to(BY_LABEL), "InterPodAffinity", {"color": "red", "size": "large"}, False),
        (near_to(term("x")), "InterPodAffinity", {"color": "blue"}, False),  # it names its namespace
        (near_to(BY_LABEL), "NodeResourcesFit", {"color": "blue"}, False),
        (BY_NAMESPACE, "InterPodAffinity", {"color": "blue"}, True),
    ],
)
@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_a_namespace_has_other_labels(
    minor: int, pod: Pod, rejected_by: str, labels: dict[str, str], is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=pod, rejected_by=rejected_by)
    waiting.label_namespace(**labels)
    waiting.look()
    assert waiting.is_excused() == is_excused
    waiting.try_again()
    assert not waiting.is_excused()


@in_event_loop
async def test_a_namespace_that_anti_affinity_comes_to_mean_lets_no_pod_in() -> None:
    waiting = Waiting(34, pod=BY_NAMESPACE, rejected_by="InterPodAffinity")
    waiting.label_namespace(color="blue")
    waiting.look()
    waiting.try_again()
    waiting.label_namespace(color="red")
    waiting.look()
    assert not waiting.is_excused()


@pytest.mark.parametrize(("app", "node_name", "is_excused"), [("p", "b", True), ("z", "b", False), ("p", "", False)])
@in_event_loop
async def test_a_namespace_that_the_anti_affinity_of_a_pod_on_a_node_means_no_more(
    app: str, node_name: str, is_excused: bool
) -> None:
    waiting = Waiting(37, pod=changed(TOO_LARGE, labels={"app": "p"}), rejected_by="InterPodAffinity")
    of_red = {"namespaceSelector": {"matchLabels": {"color": "red"}}}
    waiting.put_pod("q", node_name, affinity=anti_affinity(app, **of_red))
    waiting.look()
    waiting.label_namespace(color="blue")
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "uid", "labels", "is_excused"),
    [
        (32, "uid-of-p", {"app": "z"}, True),
        (35, "uid-of-p", {"app": "z"}, True),
        (36, "uid-of-p", {"app": "z"}, False),  # it wakes itself
        (31, "uid-of-p", {"app": "z"}, False),  # as any change of its own does without hints
        (35, "uid-of-p", {"app": "p"}, False),
        (35, "uid-of-q", {"app": "z"}, False),  # another pod on no node
    ],
)
@in_event_loop
async def test_a_pod_has_got_other_labels_itself(
    minor: int, uid: str, labels: dict[str, str], is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=changed(TOO_LARGE, labels={"app": "p"}), rejected_by="InterPodAffinity")
    waiting.put_pod("p", "", {"app": "p"}, uid=uid)
    waiting.look()
    waiting.try_again()
    waiting.put_pod("p", "", labels, uid=uid)
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(
    ("minor", "app", "others", "is_excused"),
    [
        (34, "x", 0, True),
        (37, "x", 0, True),
        (37, "x", 1, False),  # it is to be near to that one
        (37, "z", 0, False),  # it is of another kind
        (31, "x", 0, False),  # without hints, the end of any pod wakes it
    ],
)
@in_event_loop
async def test_the_last_pod_has_ended_that_a_pod_of_its_kind_was_to_be_near_to(
    minor: int, app: str, others: int, is_excused: bool
) -> None:
    waiting = Waiting(minor, pod=changed(near_to(term("x")), labels={"app": app}), rejected_by="InterPodAffinity")
    for number in range(others + 1):
        waiting.put_pod(f"q-{number}", "b", {"app": "x"})
    waiting.look()
    waiting.try_again()
    waiting.etcd.delete(PODS, "default/q-0")
    waiting.look()
    assert waiting.is_excused() == is_excused


@pytest.mark.parametrize(("app", "is_excused"), [("x", True), ("z", False)])
@in_event_loop
async def test_the_place_of_the_last_pod_is_given_up_that_a_pod_of_its_kind_was_to_be_near_to(
    app: str, is_excused: bool
) -> None:
    waiting = Waiting(35, pod=changed(near_to(term("x")), labels={"app": "x"}), rejected_by="InterPodAffinity")
    waiting.unreserve(app=app)
    waiting.look()
    assert waiting.is_excused() == is_excused

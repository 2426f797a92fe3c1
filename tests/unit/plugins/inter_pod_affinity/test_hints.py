"""Which changes wake a pod that InterPodAffinity rejected, in each release. tests/lockstep/hints compares 1.31 and 1.37
with kube-scheduler's own; what is here was read from the releases between, too."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.kube.parsing.label_syntax import Wording
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
)
from extender_service.plugins.inter_pod_affinity.hints import (
    affinity_changed_by_node,
    affinity_helped_by_node,
    affinity_helped_by_pod,
)
from tests.support.objects import make_node, make_pod

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)


def term(key: str, **labels: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, LabelSelector(labels))


def pod_with(
    labels: Mapping[str, str],
    *,
    node: str = "",
    nominated: str = "",
    near: tuple[PodAffinityTerm, ...] = (),
    apart: tuple[PodAffinityTerm, ...] = (),
) -> Pod:
    made = make_pod("pod", node, nominated=nominated)
    affinity = Affinity(pod_affinity=PodAffinity(required=near), pod_anti_affinity=PodAffinity(required=apart))
    return structs.replace(
        made,
        metadata=structs.replace(made.metadata, labels=dict(labels)),
        spec=structs.replace(made.spec, affinity=affinity),
    )


def waking(pod: Pod, old: Pod | None, new: Pod | None) -> list[int]:
    """The releases in which a change of another pod wakes the pod, by minor."""
    return [minor for minor in MINORS if affinity_helped_by_pod(pod, old, new, rules_of(minor))]


APART = (term("host", app="x"), term("zone", role="y"))
WAITING = pod_with({"app": "web"}, apart=APART)


@pytest.mark.parametrize(
    ("labels", "minors"),
    [({"app": "x", "role": "y"}, [*MINORS]), ({"app": "x"}, [37]), ({"app": "z"}, [])],
    ids=["all terms", "one of two", "none"],
)
def test_the_end_of_a_pod_that_the_anti_affinity_matched(labels: Mapping[str, str], minors: list[int]) -> None:
    other = pod_with(labels, node="a")
    assert waking(WAITING, other, None) == minors
    assert waking(WAITING, other, pod_with({}, node="a")) == minors
    assert waking(WAITING, None, other) == []


@pytest.mark.parametrize(
    ("terms", "minors"),
    [((term("zone", app="web"),), [36, 37]), ((term("zone", app="web"), term("zone", app="z")), [37])],
    ids=["all terms", "one of two"],
)
def test_the_end_of_a_pod_whose_anti_affinity_matched_this_one(
    terms: tuple[PodAffinityTerm, ...], minors: list[int]
) -> None:
    other = pod_with({}, node="a", apart=terms)
    assert waking(pod_with({"app": "web"}), other, None) == minors
    assert waking(pod_with({"app": "web"}), other, other) == []


def test_a_nominated_pod_counts_from_1_36_on() -> None:
    pod = pod_with({}, near=(term("zone", app="x"),))
    assert waking(pod, None, pod_with({"app": "x"}, nominated="a")) == [36, 37]
    assert waking(pod, None, pod_with({"app": "x"}, node="a")) == [*MINORS]
    assert waking(pod, None, pod_with({"app": "x"})) == []


def labelled(**labels: str) -> Node:
    return make_node("a", labels=labels)


@pytest.mark.parametrize(
    ("pod", "old", "new", "until_1_32", "from_1_33"),
    [
        (WAITING, labelled(zone="1"), labelled(zone="1", disk="fast"), True, False),
        (WAITING, None, labelled(), False, True),
        (WAITING, labelled(zone="1"), labelled(zone="2"), True, True),
        (WAITING, labelled(zone="1"), labelled(), False, True),
        (pod_with({}, near=(term("zone", app="x"),)), labelled(), labelled(zone="1"), True, True),
    ],
    ids=["another label", "a new node", "another zone", "out of the zone", "into a zone"],
)
def test_changes_of_nodes(pod: Pod, old: Node | None, new: Node, *, until_1_32: bool, from_1_33: bool) -> None:
    assert affinity_helped_by_node(pod, old, new, Wording()) == until_1_32
    assert affinity_changed_by_node(pod, old, new, Wording()) == from_1_33
    assert [rules_of(minor).topologies_compared for minor in (32, 33)] == [False, True]

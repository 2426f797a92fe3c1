"""Which of the nodes where preemption helps is best, and how many are looked for."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.pods.pod_table import PodTable
from extender_service.framework.interface import Candidate
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates, best_candidates, sampled
from tests.support.clusters.preemption_worlds import preemption_cluster, running

Pods = list[tuple[int, int]]


def candidates(*made: Candidate) -> Candidates:
    return Candidates(
        [candidate.node_name for candidate in made],
        np.array([slot for candidate in made for slot in candidate.victims], np.intp),
        np.array([len(candidate.victims) for candidate in made], np.intp),
        np.array([candidate.pdb_violations for candidate in made], np.intp),
    )


def victims_on(nodes: Sequence[Pods]) -> tuple[PodTable, list[tuple[int, ...]]]:
    """Pods of these priorities and starts on nodes, and their slots."""
    pods = [
        running(f"{node}-{number}", str(node), priority=priority, cpu=0, started=started, app="web")
        for node, on_node in enumerate(nodes)
        for number, (priority, started) in enumerate(on_node)
    ]
    cluster = preemption_cluster(pods, nodes="".join(str(node) for node in range(len(nodes))))
    return cluster.pods, [tuple(cluster.pods.on_row(cluster.nodes.row_of[str(node)])) for node in range(len(nodes))]


def test_candidates_are_seen_one_by_one() -> None:
    one, two, three = Candidate("a", (3, 1), 1), Candidate("b", (2,), 0), Candidate("c", (5, 4, 0), 2)
    found = candidates(one, two, three)
    assert list(found) == [one, two, three]
    assert list(found.at(np.array([2, 0]))) == [three, one]
    assert list(Candidates.joined([NO_CANDIDATES, candidates(one, two), candidates(three)])) == [one, two, three]


@pytest.mark.parametrize(
    ("on_a", "on_b", "best"),
    [
        pytest.param([(5, 1)], [(4, 1)], ["b"], id="the lower priority"),
        pytest.param([(4, 1), (1, 1)], [(4, 1)], ["b"], id="the lower sum"),
        pytest.param([(4, 5)], [(4, 9)], ["b"], id="the later start"),
        pytest.param([(4, 5)], [(4, 5)], ["a", "b"], id="no difference"),
    ],
)
def test_the_least_harm_is_best(on_a: Pods, on_b: Pods, best: list[str]) -> None:
    pods, (of_a, of_b) = victims_on([on_a, on_b])
    assert best_candidates(pods, candidates(Candidate("a", of_a, 0), Candidate("b", of_b, 0))).names == best
    assert best_candidates(pods, candidates(Candidate("a", of_a, 1), Candidate("b", of_b, 0))).names == ["b"]


victims = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=4)


@given(st.lists(st.tuples(victims, st.integers(0, 1)), min_size=1, max_size=6))
def test_the_best_have_the_least_of_every_criterion_in_its_turn(drawn: list[tuple[Pods, int]]) -> None:
    pods, slots = victims_on([on_node for on_node, _ in drawn])

    def harm(on_node: Pods, violations: int) -> tuple[int, ...]:
        highest = max(priority for priority, _ in on_node)
        earliest = min(started for priority, started in on_node if priority == highest)
        total = sum(priority + 2**31 for priority, _ in on_node)
        return violations, on_node[0][0], total, len(on_node), -earliest

    harms = [harm(*each) for each in drawn]
    found = candidates(*[Candidate(str(node), slots[node], violations) for node, (_, violations) in enumerate(drawn)])
    expected = [str(node) for node, each in enumerate(harms) if each == min(harms)]
    assert best_candidates(pods, found).names == expected


def test_a_pod_that_has_not_started_counts_as_the_latest() -> None:
    pods, (of_a, of_b) = victims_on([[(1, 1)], [(1, 2)]])
    pods.started[of_a[0]] = np.iinfo(np.int64).max
    assert best_candidates(pods, candidates(Candidate("a", of_a, 0), Candidate("b", of_b, 0))).names == ["a"]


@pytest.mark.parametrize(
    ("violations", "wanted", "taken"),
    [
        pytest.param([1, 1, 0, 0], 2, [2, 0, 1], id="until a sound one is found"),
        pytest.param([0, 1, 1], 2, [0, 1], id="until there are enough"),
        pytest.param([0, 0, 0], 2, [0, 1], id="no more than are wanted"),
        pytest.param([1, 2, 1], 2, [0, 1], id="all of them where none is sound"),
        pytest.param([0, 0], 5, [0, 1], id="as many as there are"),
        pytest.param([], 5, [], id="none"),
    ],
)
def test_candidates_are_looked_for_until_enough_are_found(violations: list[int], wanted: int, taken: list[int]) -> None:
    found = candidates(*[Candidate(str(number), (number,), each) for number, each in enumerate(violations)])
    assert sampled(found, wanted).names == [str(number) for number in taken]

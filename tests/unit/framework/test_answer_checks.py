import numpy as np
import pytest

from extender_service.cluster.amounts.dimensions import UNOFFERED
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import (
    wrong_candidates,
    wrong_names,
    wrong_needs,
    wrong_permit,
    wrong_post_filter,
    wrong_rejections,
    wrong_score,
    wrong_scores,
    wrong_status,
)
from extender_service.framework.interface import Candidate, Needs, PostFilterResult
from extender_service.framework.status import SKIP, Code, Rejections, Status, unschedulable
from extender_service.kube.types.core import Node
from tests.support.objects import make_node, make_pod


def nodes_with_two_pods() -> NodeView:
    cluster = Cluster()
    cluster.apply_node(make_node("node-1"))
    for name in ("a", "b"):
        cluster.apply_pod(make_pod(name, "node-1"))
    return cluster.view(None)


NODES = nodes_with_two_pods()
FOUND = Status(Code.SUCCESS)


def test_right_answers_are_taken() -> None:
    assert wrong_names(["node-1"]) is wrong_names({"node-1"}) is wrong_names(np.array(["node-1"])) is None
    assert wrong_status(SKIP) is None
    assert wrong_permit((None, 0)) is wrong_permit((Status(Code.WAIT), np.int64(5))) is None
    assert wrong_post_filter(PostFilterResult(FOUND), NODES) is None
    assert wrong_post_filter(PostFilterResult(FOUND, "node-1", (1, 0)), NODES) is None
    assert wrong_post_filter(PostFilterResult(FOUND, "node-1", candidates=iter(())), NODES) is None
    assert wrong_candidates([Candidate("node-1", (1, 0), 0), Candidate("node-1", (*np.array([1]),), 2)], NODES) is None
    assert wrong_needs(Needs((0, 1, UNOFFERED), (*np.array([500, 7, 2**63 - 1]),)), NODES) is None
    assert wrong_rejections(Rejections.where(np.array([True, False]), unschedulable("no")), 2) is None
    assert wrong_scores(np.array([1, 2]), 2) is None
    assert wrong_score(7) is wrong_score(np.int64(7)) is None


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (wrong_names("node-1"), "str, not a Status, the names of nodes or None"),
        (wrong_names(True), "bool, not a Status, the names of nodes or None"),
        (wrong_names(np.flatnonzero([True])), "ndarray of int64, not a Status, the names of nodes or None"),
        (wrong_names(np.array("node-1")), "an array () of <U6, not a Status, the names of nodes or None"),
        (wrong_names(np.array([["node-1"]])), "an array (1, 1) of <U6, not a Status, the names of nodes or None"),
        (wrong_names(["node-1", Node()]), "list of Node, not a Status, the names of nodes or None"),
        (wrong_status(True), "bool, not a Status or None"),
        (wrong_status(Status(Code.SUCCESS)), "Status(Code.SUCCESS): return None instead"),
        (wrong_permit((Status(Code.SUCCESS), 0.0)), "Status(Code.SUCCESS): return None instead"),
        (wrong_permit(None), "NoneType, not a Status or None, and seconds"),
        (wrong_permit((Status(Code.WAIT), None)), "tuple, not a Status or None, and seconds"),
        (wrong_permit((Status(Code.WAIT), float("nan"))), "NaN as seconds, not a number"),
        (wrong_post_filter(None, NODES), "NoneType, not a PostFilterResult"),
        (wrong_post_filter(unschedulable("no"), NODES), "Status, not a PostFilterResult"),
        (
            wrong_post_filter(PostFilterResult("no"), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose status is str, not a Status",
        ),
        (
            wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", ("web",)), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose victims are tuple of str, not a tuple of slots",
        ),
        (
            wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", "web"), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose victims are str, not a tuple of slots",
        ),
        (
            wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", (True, False)), NODES),
            "a PostFilterResult whose victims are tuple of bool, not a tuple of slots",
        ),
        (
            wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", (0, -1)), NODES),
            "a PostFilterResult whose victim -1 is no slot of a pod",
        ),
        (
            wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", (0, 2)), NODES),
            "a PostFilterResult whose victim 2 is no slot of a pod",
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, 1), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose node_name is int, not a str",
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, None), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose node_name is NoneType, not a str",
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, np.array(["node-1"])[0]), NODES),
            "a PostFilterResult whose node_name is str_, not a str",
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, "node-2"), NODES),
            'a PostFilterResult whose node_name "node-2" is no node of the cluster',
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, "", (0,)), NODES),
            "a PostFilterResult with victims and no node_name",
        ),
        (
            wrong_post_filter(PostFilterResult(unschedulable("no"), clears_nomination="no"), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose clears_nomination is str, not a bool",
        ),
        (
            wrong_post_filter(PostFilterResult(FOUND, "node-1", candidates=2), NODES),  # type: ignore[arg-type]
            "a PostFilterResult whose candidates are int, not an iterable of Candidate",
        ),
        (
            wrong_candidates([Candidate("node-1", (0,), 0), "node-1"], NODES),
            "a PostFilterResult with a candidate that is str, not a Candidate",
        ),
        (
            wrong_candidates([Candidate(1, (0,), 0)], NODES),  # type: ignore[arg-type]
            "a PostFilterResult with a Candidate whose node_name is int, not a str",
        ),
        (
            wrong_candidates([Candidate("node-2", (0,), 0)], NODES),
            'a PostFilterResult with a Candidate whose node_name "node-2" is no node of the cluster',
        ),
        (
            wrong_candidates([Candidate("node-1", ("web",), 0)], NODES),  # type: ignore[arg-type]
            "a PostFilterResult with a Candidate whose victims are tuple of str, not a tuple of slots",
        ),
        (
            wrong_candidates([Candidate("node-1", (0, 2), 0)], NODES),
            "a PostFilterResult with a Candidate whose victim 2 is no slot of a pod",
        ),
        (wrong_candidates([Candidate("node-1", (), 0)], NODES), "a PostFilterResult with a Candidate without victims"),
        (
            wrong_candidates([Candidate("node-1", (0,), 0.5)], NODES),  # type: ignore[arg-type]
            "a PostFilterResult with a Candidate whose pdb_violations are float, not an int",
        ),
        (
            wrong_candidates([Candidate("node-1", (0,), -1)], NODES),
            "a PostFilterResult with a Candidate whose pdb_violations are -1, not a count",
        ),
        (
            wrong_candidates([Candidate("node-1", (0,), 2**63)], NODES),
            f"a PostFilterResult with a Candidate whose pdb_violations are {2**63}, not a count",
        ),
        (wrong_needs((0, 500), NODES), "tuple, not Needs or None"),
        (
            wrong_needs(Needs((0,), (0.5,)), NODES),  # type: ignore[arg-type]
            "Needs whose amounts are tuple of float, not whole numbers",
        ),
        (wrong_needs(Needs((0,), (True,)), NODES), "Needs whose amounts are tuple of bool, not whole numbers"),
        (wrong_needs(Needs([0], (5,)), NODES), "Needs whose dimensions are list, not whole numbers"),  # type: ignore[arg-type]
        (wrong_needs(Needs((0, 1), (5,)), NODES), "Needs with 2 dimensions and 1 amounts"),
        (wrong_needs(Needs((0, 99), (5, 5)), NODES), "Needs whose dimension 99 is that of no resource"),
        (wrong_needs(Needs((-2,), (5,)), NODES), "Needs whose dimension -2 is that of no resource"),
        (wrong_needs(Needs((0,), (2**63,)), NODES), f"Needs whose amount {2**63} is beyond int64"),
        (wrong_rejections(np.array([True]), 1), "an array (1,) of bool, not Rejections or None"),
        (
            wrong_rejections(Rejections.where(np.array([True]), unschedulable("no")), 2),
            "Rejections whose keys have the shape (1,), not (2,)",
        ),
        (
            wrong_rejections(Rejections(np.array(1), lambda _: unschedulable("no")), 2),
            "Rejections whose keys have the shape (), not (2,)",
        ),
        (
            wrong_rejections(Rejections([0, 1], lambda _: unschedulable("no")), 2),  # type: ignore[arg-type]
            "Rejections whose keys are list, not an array of int64",
        ),
        (
            wrong_rejections(Rejections(np.array([0.0, np.nan]), lambda _: unschedulable("no")), 2),
            "Rejections whose keys are an array (2,) of float64, not an array of int64",
        ),
        (wrong_scores([1, 2], 2), "list, not 2 scores of int64"),
        (wrong_scores(np.array([0.5, 1.0]), 2), "an array (2,) of float64, not 2 scores of int64"),
        (wrong_scores(np.array([1]), 2), "an array (1,) of int64, not 2 scores of int64"),
        (wrong_score(0.93), "float, not a whole number"),
        (wrong_score(np.float64(7)), "float64, not a whole number"),
        (wrong_score(True), "bool, not a whole number"),
    ],
)
def test_other_answers_are_told_with_what_was_wanted(wrong: str | None, text: str) -> None:
    assert wrong == text

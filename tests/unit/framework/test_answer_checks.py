import numpy as np
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import (
    wrong_names,
    wrong_needs,
    wrong_permit,
    wrong_post_filter,
    wrong_rejections,
    wrong_score,
    wrong_scores,
    wrong_status,
)
from extender_service.framework.interface import Needs, PostFilterResult
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


def test_right_answers_are_taken() -> None:
    assert wrong_names(["node-1"]) is wrong_names({"node-1"}) is wrong_names(np.array(["node-1"])) is None
    assert wrong_status(SKIP) is None
    assert wrong_permit((None, 0)) is wrong_permit((Status(Code.WAIT), np.int64(5))) is None
    assert wrong_post_filter(PostFilterResult(Status(Code.SUCCESS)), NODES) is None
    assert wrong_post_filter(PostFilterResult(Status(Code.SUCCESS), "node-1", (1, 0)), NODES) is None
    assert wrong_needs(Needs((0, 1), (500, 7))) is None
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
        (wrong_needs((0, 500)), "tuple, not Needs or None"),
        (
            wrong_needs(Needs((0,), (0.5,))),  # type: ignore[arg-type]
            "Needs whose amounts are tuple of float, not whole numbers",
        ),
        (wrong_needs(Needs((0,), (True,))), "Needs whose amounts are tuple of bool, not whole numbers"),
        (wrong_needs(Needs([0], (5,))), "Needs whose dimensions are list, not whole numbers"),  # type: ignore[arg-type]
        (wrong_needs(Needs((0, 1), (5,))), "Needs with 2 dimensions and 1 amounts"),
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

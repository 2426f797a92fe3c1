import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from extender_service.framework.guard import CycleError
from extender_service.framework.status import Code, Rejections, Status, unschedulable
from extender_service.framework.verdicts import Verdicts
from tests.support.stub_plugins import fails, stub_cluster

NO = unschedulable("no")
NAMES = [f"n{number}" for number in range(16)]


def verdicts(*asked: str) -> Verdicts:
    view = stub_cluster(*NAMES).view(None)
    return Verdicts(view, np.array([name in asked for name in view.names]))


def reject(on: Verdicts, plugin: str, *names: str, status: Status = NO) -> None:
    """Reject nodes of those that remain, as a plugin does."""
    on.reject(plugin, Rejections.where(np.isin(on.remaining.names, names), status))


def groups(of: Verdicts) -> dict[tuple[str, str], list[str]]:
    names = of.view.names
    return {
        (status.plugin, status.message): [names[position] for position in positions]
        for status, positions in of.groups()
    }


def test_nodes_that_were_not_asked_for_have_no_verdict() -> None:
    asked = verdicts("n1", "n2")
    reject(asked, "A", "n1", "n3")
    assert groups(asked) == {("A", "no"): ["n1"]}
    assert [asked.view.names[position] for position in np.flatnonzero(asked.passing)] == ["n2"]
    assert (asked.left, asked.rejecting_plugins()) == (1, {"A"})


def test_the_first_verdict_stays() -> None:
    asked = verdicts(*NAMES)
    reject(asked, "A", "n1", "n2")
    reject(asked, "B", "n2", "n3", status=unschedulable("later"))
    assert groups(asked) == {("A", "no"): ["n1", "n2"], ("B", "later"): ["n3"]}


def test_plugins_that_have_judged_all_nodes_reject_them_in_their_order() -> None:
    asked = verdicts(*NAMES[:15])

    def of_all(*names: str) -> Rejections:
        return Rejections.where(np.isin(NAMES, names), NO)

    found = Verdicts.of_all(
        asked.view, asked.passing, [("A", of_all(*NAMES[3:])), ("B", of_all("n2", "n3")), ("C", of_all("n0", "n15"))]
    )
    assert groups(found) == {("A", "no"): NAMES[3:15], ("B", "no"): ["n2"], ("C", "no"): ["n0"]}
    assert [found.view.names[position] for position in np.flatnonzero(found.passing)] == ["n1"]
    assert found.left == 1
    assert asked.left == 15


def test_a_plugin_that_settled_nothing_is_not_told() -> None:
    asked = verdicts(*NAMES)
    reject(asked, "A", "n1")
    reject(asked, "B", "n1")
    assert asked.rejecting_plugins() == {"A"}


def test_what_remains_is_narrowed_once_most_nodes_are_out() -> None:
    asked = verdicts(*NAMES)
    reject(asked, "A", *NAMES[5:])
    assert len(asked.remaining) == 16
    reject(asked, "B", NAMES[4])
    assert asked.remaining.names == NAMES[:4]
    reject(asked, "C", *NAMES[1:4])
    assert asked.remaining.names == NAMES[:1]
    reject(asked, "D", NAMES[0])
    assert asked.left == 0
    assert groups(asked) == {
        ("A", "no"): NAMES[5:],
        ("B", "no"): [NAMES[4]],
        ("C", "no"): NAMES[1:4],
        ("D", "no"): [NAMES[0]],
    }


def test_the_error_of_the_first_node_counts() -> None:
    asked = verdicts(*NAMES)
    assert asked.first_error() is None
    reject(asked, "A", "n5", status=Status(Code.ERROR, ("later",)))
    reject(asked, "B", "n2", status=Status(Code.ERROR, ("first",)))
    reject(asked, "C", "n1")
    error = asked.first_error()
    assert error is not None
    assert (error.plugin, error.message) == ("B", "first")


def test_a_node_that_pre_filter_left_out_can_be_brought_back_without_a_status() -> None:
    asked = verdicts("n1", "n2", "n3")
    asked.leave_out(Rejections.where(np.isin(asked.remaining.names, ["n1", "n2"]), NO))
    reject(asked, "A", "n3")
    n1, n3 = (asked.view.names.index(name) for name in ("n1", "n3"))
    assert [asked.bring_back(position) for position in (n1, n1, n3)] == [True, False, False]
    assert groups(asked) == {("", "no"): ["n2"], ("A", "no"): ["n3"]}
    assert asked.bring_back(asked.view.names.index("n2"))
    assert groups(asked) == {("A", "no"): ["n3"]}
    assert not asked.passing.any()


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        (fails(IndexError("no such reason")), "IndexError: no such reason"),
        (fails(asyncio.CancelledError("stopped")), "CancelledError: stopped"),
        (lambda: None, "its Rejections have a NoneType, not a Status"),
        (lambda: "no", "its Rejections have a str, not a Status"),
    ],
)
def test_a_plugin_that_does_not_say_why_it_rejects_a_node_is_named(says: Callable[[], Any], problem: str) -> None:
    asked = verdicts(*NAMES)
    asked.reject("A", Rejections(np.ones(len(NAMES), np.int64), lambda _: says()))
    with pytest.raises(CycleError) as raised:
        groups(asked)
    assert str(raised.value) == f'running "A" filter plugin: {problem}'

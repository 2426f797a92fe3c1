from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable

NO = unschedulable("no")
NEVER = unresolvable("never")


def status_per_node(rejections: Rejections) -> list[Status | None]:
    return [rejections.status_of(key) if key else None for key in rejections.keys.tolist()]


def test_codes_have_kubernetes_names() -> None:
    assert [code.label for code in Code] == [
        "Success",
        "Error",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        "Wait",
        "Skip",
        "Pending",
    ]


def test_a_status_tells_all_reasons_in_one_line() -> None:
    assert unschedulable("Too many pods", "Insufficient cpu").message == "Too many pods, Insufficient cpu"
    assert SKIP.message == ""


@pytest.mark.parametrize("code", Code)
def test_rejections_are_no_errors(code: Code) -> None:
    assert Status(code).is_rejection == (code.label in ("Unschedulable", "UnschedulableAndUnresolvable", "Pending"))


def test_a_status_is_given_by_a_plugin() -> None:
    given_by = NO.given_by("NodePorts")
    assert (given_by.code, given_by.reasons, given_by.plugin) == (NO.code, NO.reasons, "NodePorts")


@pytest.mark.parametrize(
    ("code", "reasons", "says"),
    [
        ("no", (), "the code of a Status must be a Code, not 'no'"),
        (Code.UNSCHEDULABLE, "no", "the reasons of a Status must be a tuple of texts, not 'no'"),
        (Code.UNSCHEDULABLE, ["no"], "the reasons of a Status must be a tuple of texts, not ['no']"),
        (Code.UNSCHEDULABLE, (1,), "the reasons of a Status must be a tuple of texts, not (1,)"),
    ],
)
def test_a_status_cannot_be_made_of_anything_but_a_code_and_a_tuple_of_texts(
    code: Any, reasons: Any, says: str
) -> None:
    with pytest.raises(TypeError) as raised:
        Status(code, reasons)
    assert str(raised.value) == says


def test_one_status_for_the_marked_nodes() -> None:
    assert status_per_node(Rejections.where(np.array([False, True, True]), NO)) == [None, NO, NO]


def test_a_status_by_the_value_that_a_node_has() -> None:
    rejections = Rejections.per_value(np.array([2, 0, 1, 2]), [None, NO, NEVER])
    assert status_per_node(rejections) == [NEVER, None, NO, NEVER]


def test_a_node_without_the_value_passes_whatever_the_last_value_is() -> None:
    numbers = np.array([0, ABSENT, 1, ABSENT])
    of_values: list[list[Status | None]] = [[None, NO], [NO, None], [NEVER, NO]]
    for statuses in of_values:
        rejections = Rejections.per_value(numbers, statuses)
        assert status_per_node(rejections) == [statuses[0], None, statuses[1], None]
    assert status_per_node(Rejections.per_value(np.array([ABSENT, ABSENT]), [])) == [None, None]


def test_the_first_status_that_holds() -> None:
    both = np.array([False, True, True]), np.array([False, False, True])
    assert status_per_node(Rejections.first_of([(NO, both[0]), (NEVER, both[1])], 3)) == [None, NO, NO]
    assert status_per_node(Rejections.first_of([(NEVER, both[1]), (NO, both[0])], 3)) == [None, NO, NEVER]


@pytest.mark.parametrize("code", [Code.ERROR, Code.WAIT, Code.SKIP])
def test_what_is_no_rejection_is_found_out(code: Code) -> None:
    strange = Status(code, ("strange",))
    assert Rejections.where(np.array([True]), strange).may_be_errors
    assert Rejections.per_value(np.array([0]), [None, strange]).may_be_errors
    assert Rejections.first_of([(NO, np.array([True])), (strange, np.array([True]))], 1).may_be_errors
    assert not Rejections.first_of([(NO, np.array([True]))], 1).may_be_errors
    assert not Rejections.where(np.array([True]), NO).may_be_errors
    assert not Rejections.per_value(np.array([0]), [None, NO, NEVER]).may_be_errors


@given(reasons=st.integers(1, 200), data=st.data())
def test_all_reasons_that_hold_in_their_order(reasons: int, data: st.DataObject) -> None:
    """Also where there are more reasons than a key has bits."""
    size = data.draw(st.integers(1, 5))
    holding = [
        data.draw(st.sets(st.integers(0, reasons - 1) | st.sampled_from([0, reasons - 1]), max_size=4))
        for _ in range(size)
    ]
    checks = [
        (f"reason {number}", np.array([number in holds for holds in holding], np.bool_)) for number in range(reasons)
    ]
    rejections = Rejections.per_reason(Code.UNSCHEDULABLE, checks, size)
    assert status_per_node(rejections) == [
        unschedulable(*(f"reason {number}" for number in sorted(holds))) if holds else None for holds in holding
    ]


def test_some_nodes_that_lack_something_may_be_beyond_help() -> None:
    checks = [("cpu", np.array([True, True, False, False])), ("memory", np.array([False, True, False, True]))]
    hopeless = np.array([False, True, True, False])
    assert status_per_node(Rejections.per_reason(Code.UNSCHEDULABLE, checks, 4, unresolvable=hopeless)) == [
        unschedulable("cpu"),
        unresolvable("cpu", "memory"),
        None,
        unschedulable("memory"),
    ]


@pytest.mark.parametrize("reasons", [62, 63, 100])
def test_nodes_beyond_help_may_lack_any_number_of_things(reasons: int) -> None:
    checks = [(f"r{number}", np.array([True, number == reasons - 1])) for number in range(reasons)]
    found = Rejections.per_reason(Code.UNSCHEDULABLE, checks, 2, unresolvable=np.array([True, False]))
    assert status_per_node(found) == [
        unresolvable(*(f"r{number}" for number in range(reasons))),
        unschedulable(f"r{reasons - 1}"),
    ]

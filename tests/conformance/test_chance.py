"""What the reference leaves to chance does not count as a difference, and all else does."""

from typing import Any

import msgspec
import pytest

from tests.conformance import chance
from tests.conformance.cases import Case


def case(*pods: dict[str, Any]) -> Case:
    objects = [
        msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, **pod})
        for number, pod in enumerate(pods)
    ]
    return Case("case-1-1", msgspec.Raw(b"{}"), [msgspec.Raw(item) for item in objects])


def victim(start: str | None, priority: int = 0, node: str = "a") -> dict[str, Any]:
    return {"spec": {"nodeName": node, "priority": priority}, "status": {} if start is None else {"startTime": start}}


DISTINCT = [victim(f"2024-01-01T00:00:{second:02}Z") for second in range(12)]
ORDER = "preempt.candidates: ours ['x', 'y'], reference ['y', 'x']"


def test_of_many_victims_those_that_are_alike_come_in_any_order() -> None:
    [reason] = chance.reasons(case(*DISTINCT, DISTINCT[0]), [ORDER])
    assert "sort.Slice is not stable" in reason


@pytest.mark.parametrize(
    "pods",
    [
        (*DISTINCT, victim("2024-01-01T00:01:00Z")),
        (*DISTINCT, victim("2024-01-01T00:00:00Z", priority=1)),
        (*DISTINCT, victim("2024-01-01T00:00:00Z", node="b")),
        (*DISTINCT[1:], DISTINCT[1]),
    ],
    ids=["distinct", "other priority", "other node", "few"],
)
def test_else_their_order_is_defined(pods: tuple[dict[str, Any], ...]) -> None:
    assert chance.reasons(case(*pods), [ORDER]) == []


def test_chance_explains_all_differences_of_a_case_or_none() -> None:
    total = "total.a: ours 1, reference 2"
    assert chance.reasons(case(*DISTINCT, DISTINCT[0]), [ORDER, total]) == []
    assert chance.reasons(case(*DISTINCT, DISTINCT[0]), []) == []

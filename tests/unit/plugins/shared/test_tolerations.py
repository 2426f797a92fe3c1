import pytest
from msgspec import structs

from extender_service.config.rules import rules_of
from extender_service.kube.types.core import Taint, Toleration
from extender_service.plugins.shared.tolerations import (
    first_untolerated,
    is_tolerated,
    tolerates,
    tolerates_in,
    tolerates_or_compares,
)

TAINT = Taint("gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "yes", "NoSchedule"), True),
        (Toleration("gpu", "", "yes", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("gpu", "Equal"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Exists", "no"), True),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal", "yes"), True),
        (Toleration("cpu", "Exists"), False),
        (Toleration("gpu", "Odd", "yes"), False),
    ],
)
def test_what_a_toleration_covers(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, TAINT) == tolerates_or_compares(toleration, TAINT) == covers
    assert is_tolerated(TAINT, [Toleration("other", "Exists"), toleration], tolerates) == covers


def test_the_first_taint_that_keeps_pods_off_and_is_not_tolerated() -> None:
    taints = [Taint("soft", "", "PreferNoSchedule"), TAINT, Taint("a", "", "NoExecute"), Taint("b", "", "NoSchedule")]
    assert first_untolerated(taints, [], tolerates) == TAINT
    assert first_untolerated(taints, [Toleration("gpu", "Exists")], tolerates) == Taint("a", "", "NoExecute")
    assert first_untolerated(taints, [Toleration("", "Exists")], tolerates) is None
    assert first_untolerated([], [], tolerates) is None


@pytest.mark.parametrize(
    ("operator", "bound", "value", "covers"),
    [
        ("Gt", "950", "951", True),
        ("Gt", "950", "950", False),
        ("Gt", "-3", "-2", True),
        ("Lt", "950", "949", True),
        ("Lt", "950", "950", False),
        ("Lt", "0", "-1", True),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        # None of these is a decimal integer in its one form, within 64 bits.
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "1", "02", False),
        ("Gt", "1", "+2", False),
        ("Lt", "1", "-0", False),
        ("Lt", "1", "-", False),
        ("Lt", "1", "", False),
        ("Lt", "", "1", False),
        ("Gt", "1", "2\n", False),
        ("Gt", "1", "٣", False),
        ("gt", "1", "2", False),
    ],
)
def test_numbers_are_compared_behind_a_gate(operator: str, bound: str, value: str, covers: bool) -> None:
    gate = {"TaintTolerationComparisonOperators": True}
    taint, toleration = Taint("sla", value, "NoSchedule"), Toleration("sla", operator, bound, "NoSchedule")
    assert tolerates_in(rules_of(35, gate))(toleration, taint) == covers
    assert not tolerates_in(rules_of(37))(toleration, taint)
    assert not tolerates_or_compares(structs.replace(toleration, key="other"), taint)
    assert not tolerates_or_compares(structs.replace(toleration, effect="NoExecute"), taint)

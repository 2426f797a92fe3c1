import pytest

from extender_service.kube.types.core import Taint, Toleration
from extender_service.plugins.shared.tolerations import first_untolerated, is_tolerated, tolerates

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
    assert tolerates(toleration, TAINT) == covers
    assert is_tolerated(TAINT, [Toleration("other", "Exists"), toleration]) == covers


def test_the_first_taint_that_keeps_pods_off_and_is_not_tolerated() -> None:
    taints = [Taint("soft", "", "PreferNoSchedule"), TAINT, Taint("a", "", "NoExecute"), Taint("b", "", "NoSchedule")]
    assert first_untolerated(taints, []) == TAINT
    assert first_untolerated(taints, [Toleration("gpu", "Exists")]) == Taint("a", "", "NoExecute")
    assert first_untolerated(taints, [Toleration("", "Exists")]) is None
    assert first_untolerated([], []) is None

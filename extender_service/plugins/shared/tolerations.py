"""When a pod tolerates a taint (v1.Toleration.ToleratesTaint)."""

import re
from collections.abc import Callable, Iterable

from msgspec import structs

from extender_service.config.rules import Rules
from extender_service.kube.parsing.selectors import parse_label_integer
from extender_service.kube.types.core import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

_CANONICAL = re.compile("0|-?[1-9][0-9]*")


# Whether one toleration covers one taint.
Tolerates = Callable[[Toleration, Taint], bool]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers one taint; an unknown operator covers nothing."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerates_or_compares(toleration: Toleration, taint: Taint) -> bool:
    """Return the same where Lt and Gt are known: the taint's value is below, or above, the toleration's.

    Both must be decimal integers of 64 bits, without needless characters.
    """
    if toleration.operator not in ("Lt", "Gt"):
        return tolerates(toleration, taint)
    return tolerates(structs.replace(toleration, operator="Exists"), taint) and _is_beyond(toleration, taint)


def tolerates_in(rules: Rules) -> Tolerates:
    """Return how tolerations are matched in a release."""
    return tolerates_or_compares if rules.compared_tolerations else tolerates


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration], matches: Tolerates) -> bool:
    """Return whether any of the tolerations covers a taint."""
    return any(matches(toleration, taint) for toleration in tolerations)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration], matches: Tolerates) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that no toleration covers; None if there is none."""
    for taint in taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not is_tolerated(taint, tolerations, matches):
            return taint
    return None


def _is_beyond(toleration: Toleration, taint: Taint) -> bool:
    bound, value = _integer(toleration.value), _integer(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def _integer(text: str) -> int | None:
    number = parse_label_integer(text)
    return number if _CANONICAL.fullmatch(text) else None

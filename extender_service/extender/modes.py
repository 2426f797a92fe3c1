"""What the two modes do differently. A policy is chosen once, when the service starts."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Mode = Literal["beside", "replace"]

# The range that kube-scheduler expects beside its own scores (MaxExtenderPriority in extender/v1/types.go).
MAX_PRIORITY = 10

Totals = NDArray[np.int64]


class Policy(NamedTuple):
    """How a mode answers.

    - `chooses_node`: filter returns only the one node that it has chosen, so it scores feasible nodes
    - `agrees_on_victims`: the victims that kube-scheduler proposes go, since its own plugins need that, and more only
      where this service's plugins need more
    - `refuses_unsupported`: filter refuses a pod for a field that no plugin judges yet; otherwise kube-scheduler's own
      plugins judge it
    - `priorities`: computes the scores that prioritize returns from the weighted totals and the highest possible total
    """

    chooses_node: bool
    agrees_on_victims: bool
    refuses_unsupported: bool
    priorities: Callable[[Totals, int], Totals]


def _scaled(totals: Totals, max_total: int) -> Totals:
    """Scale totals from 0..max_total to 0..10, rounded to the nearest."""
    highest = max(max_total, 1)
    scaled: Totals = (2 * MAX_PRIORITY * totals + highest) // (2 * highest)
    return scaled


def _as_they_are(totals: Totals, _max_total: int) -> Totals:
    """Return the totals unchanged: no other scores are added to them, and 0..10 would distinguish fewer nodes."""
    return totals


POLICIES: Mapping[Mode, Policy] = {
    # kube-scheduler keeps its plugins: the service adds verdicts, scores and victims of its own.
    "beside": Policy(chooses_node=False, agrees_on_victims=True, refuses_unsupported=False, priorities=_scaled),
    # This service decides alone.
    "replace": Policy(chooses_node=True, agrees_on_victims=False, refuses_unsupported=True, priorities=_as_they_are),
}

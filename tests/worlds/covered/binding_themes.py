"""Faults that happen together while pods are being bound, and what must be in a cluster for them to matter."""

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.worlds.finding.small_worlds import Theme

BINDING_THEMES: Final[Sequence[Theme]] = (
    # bindings whose answer is lost, while the pod cannot be read either, nor the lease be renewed
    Theme("cut fail fail-afterwards lag no-quorum slow-answers terminate", wanted="deletions probes"),
    # bindings that the watch does not show for long, of pods that have ended by then
    Theme("slow-answers stale-cache terminate", wanted="deletions jobs same-names"),
    # etcd from a backup, while answers and watches are late
    Theme("cut-answers lag restore slow-answers", wanted="deletions preparations same-names"),
    # watches that begin again before a binding is answered, whose pod is gone by then
    Theme("close-connections forget-versions lag slow-answers", wanted="deletions jobs same-names"),
    # bindings that wait or are slow, whose pods are asked about again, are to make room, or go
    Theme("freeze slow slow-webhook terminate", wanted="deletions preparations priorities scarcity"),
    # no faults of requests: what waits is to make room, or goes
    Theme("terminate", wanted="courier deletions late-extender preparations priorities same-names scarcity"),
    # schedulers that stand still, or that lose the lease while `serve` has bindings that wait
    Theme("cut freeze-at-work kill sleep terminate", wanted="leader-lease preparations probes"),
)
# Later ones, drawn apart from these, so that most seeds keep theirs. A seed has only some of a theme's kinds of faults,
# so these have two each: what they are about takes both.
_NEWER: Final[Sequence[Theme]] = (
    # bindings that are carried out and not answered, of pods that cannot be read, nor does the watch show them
    Theme("fail-answers stale-cache", wanted="deletions jobs same-names"),
    # leaders that give up the lease while a renewal of it is not answered, or others write it
    Theme("slow-answers terminate", wanted="leader-lease lease-notes probes rival"),
    # leaders that lose the lease, or cannot read it
    Theme("fail freeze-at-work", wanted="leader-lease probes rival"),
)
_NEWER_RATE: Final = 0.2


def draw_newer_theme(seed: int) -> Theme | None:
    """Draw one of the later ones for some of the worlds."""
    random = Random(f"newer theme {seed}")
    return random.choice(_NEWER) if random.random() < _NEWER_RATE else None

"""Pods that started or stopped counting on a node. Counts of pods are kept current from these changes."""

import msgspec

from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.structures.change_log import ChangeLog


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod with these labels was added to a node row (sign 1) or removed from it (-1)."""

    label_set: LabelSet
    row: int
    sign: int
    is_terminating: bool


PodChanges = ChangeLog[PodChange]

"""Pods that came to nodes and left them, for counts of pods to follow."""

import msgspec

from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.structures.change_log import ChangeLog


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod with these labels came to a node row (sign 1) or left it (-1)."""

    label_set: LabelSet
    row: int
    sign: int
    is_terminating: bool


PodChanges = ChangeLog[PodChange]

"""What VolumeBinding finds on nodes: reasons, of which there may be several for one node, or an error."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Code, Rejections, Status

# Reasons in their order; a node's are the bits of a number.
REASONS = (
    "node(s) had volume node affinity conflict",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
REASONS_NAMING_AFFINITY = ("node(s) didn't match PersistentVolume's node affinity", *REASONS[1:])
CONFLICT, NOTHING_TO_BIND, NO_SPACE, NO_VOLUME = (1 << bit for bit in range(len(REASONS)))
_FIRST_ERROR = 1 << len(REASONS)

Mask = NDArray[np.bool_]


class VolumeVerdicts:
    """For each node, the reasons or the error that were found so far; an error outweighs reasons."""

    def __init__(self, size: int, texts: Sequence[str] = REASONS) -> None:
        self._reason_texts = texts
        self._reasons = np.zeros(size, np.int64)
        self._errors = np.zeros(size, np.int64)
        self._texts: list[str] = []

    @property
    def failed(self) -> Mask:
        """The nodes that have an error."""
        failed: Mask = self._errors != 0
        return failed

    @property
    def passing(self) -> Mask:
        """The nodes that have neither."""
        passing: Mask = (self._reasons == 0) & (self._errors == 0)
        return passing

    def add(self, reason: int, nodes: Mask) -> None:
        """Add a reason to reject these nodes."""
        self._reasons |= nodes * np.int64(reason)  # in a third of the time that the marked ones alone take

    def fail(self, text: str, nodes: Mask) -> None:
        """Record an error for these nodes."""
        self._errors[nodes] = _FIRST_ERROR + len(self._texts)
        self._texts.append(text)

    def require_none(self) -> None:
        """Raise PluginError with the first error, if there is one."""
        if self._texts:
            raise PluginError(self._texts[0])

    def rejections(self) -> Rejections | None:
        """Return the verdicts as a plugin gives them."""
        keys = np.where(self._errors != 0, self._errors, self._reasons) if self._texts else self._reasons
        if not np.count_nonzero(keys):
            return None
        return Rejections(keys, self._status_of, may_be_errors=bool(self._texts))

    def _status_of(self, key: int) -> Status:
        if key >= _FIRST_ERROR:
            return Status(Code.ERROR, (self._texts[key - _FIRST_ERROR],))
        reasons = tuple(reason for bit, reason in enumerate(self._reason_texts) if key >> bit & 1)
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

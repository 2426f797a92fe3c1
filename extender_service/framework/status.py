"""Statuses that plugins return, for one node or for many at once."""

import enum
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray


class Code(enum.IntEnum):
    """framework.Code; `label` is the name that Kubernetes prints."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The code as Kubernetes writes it."""
        return _LABELS[self]


_LABELS = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code}


class Status(msgspec.Struct, frozen=True):
    """framework.Status: a code, the reasons for it, and the plugin that gave it ("" for the framework itself).

    Construction raises TypeError for anything but a code and a tuple of texts, so that the error comes from the plugin
    that made the mistake. A text would pass for a tuple of its letters.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def __post_init__(self) -> None:
        code: object = self.code
        reasons: object = self.reasons
        if not isinstance(code, Code):
            raise TypeError(f"the code of a Status must be a Code, not {code!r}")
        if not isinstance(reasons, tuple) or (reasons and not all(isinstance(reason, str) for reason in reasons)):
            raise TypeError(f"the reasons of a Status must be a tuple of texts, not {reasons!r}")

    @property
    def message(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)

    @property
    def is_rejection(self) -> bool:
        """Whether the pod does not fit, as opposed to an error."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)

    def given_by(self, plugin: str) -> "Status":
        """Return the same status under a plugin's name."""
        return Status(self.code, self.reasons, plugin)


SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a status for a pod that does not fit, where preempting pods could help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a status for a pod that does not fit, where preempting pods would not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


class Rejections:
    """A verdict per node: 0 if the node passes, else a key. Equal keys stand for the same status.

    Status texts are made from keys at the very end, once per distinct key. For the log, that is after the answer is
    sent, when the cluster may have changed already. With `may_be_errors`, some statuses may be errors, which end the
    cycle.
    """

    __slots__ = ("_rejected", "_status_of", "keys", "may_be_errors")

    def __init__(
        self, keys: NDArray[np.int64], status_of: Callable[[int], Status], *, may_be_errors: bool = False
    ) -> None:
        self.keys = keys
        self._status_of = status_of
        self._rejected: NDArray[np.intp] | None = None
        self.may_be_errors = may_be_errors

    @property
    def rejected(self) -> NDArray[np.intp]:
        """The positions of the nodes that do not pass."""
        if self._rejected is None:
            # For booleans, nonzero takes a third of the time that it takes for numbers.
            self._rejected = (self.keys != 0).nonzero()[0]
        return self._rejected

    def status_of(self, key: int) -> Status:
        """Return the status for a key other than 0."""
        return self._status_of(key)

    @classmethod
    def where(cls, rejected: NDArray[np.bool_], status: Status) -> "Rejections":
        """Reject the marked nodes, all with one status."""
        return cls(rejected.astype(np.int64), lambda _: status, may_be_errors=not status.is_rejection)

    @classmethod
    def per_value(cls, numbers: NDArray[np.intp], statuses: Sequence[Status | None]) -> "Rejections":
        """Reject nodes by a value that each has, given as its number: `statuses` by that number, None to pass.

        A node whose number is -1 passes, as ABSENT is the number of a node without the label.
        """
        keys = [0 if status is None else number + 1 for number, status in enumerate(statuses)]
        keys.append(0)  # the last entry, which -1 picks
        rejected = np.array(keys, np.int64)

        def status_of(key: int) -> Status:
            status = statuses[key - 1]
            assert status is not None
            return status

        may_be_errors = any(status is not None and not status.is_rejection for status in statuses)
        return cls(rejected.take(numbers), status_of, may_be_errors=may_be_errors)

    @classmethod
    def first_of(cls, checks: Sequence[tuple[Status, NDArray[np.bool_]]], size: int) -> "Rejections":
        """Reject the nodes that any of `checks` marks, with the status of the first that does."""
        keys = np.zeros(size, np.int64)
        positions = None
        for number in range(len(checks), 0, -1):
            # Mostly few: writing to positions takes a fraction of the time of writing through a mask.
            positions = checks[number - 1][1].nonzero()[0]
            keys[positions] = number
        may_be_errors = any(not status.is_rejection for status, _ in checks)
        rejections = cls(keys, lambda key: checks[key - 1][0], may_be_errors=may_be_errors)
        if len(checks) == 1:
            rejections._rejected = positions
        return rejections

    @classmethod
    def per_reason(
        cls,
        code: Code,
        checks: Sequence[tuple[str, NDArray[np.bool_]]],
        size: int,
        unresolvable: NDArray[np.bool_] | None = None,
    ) -> "Rejections":
        """Reject nodes with all the reasons that hold there, in the order of `checks`: (reason, where it holds).

        Thousands of reasons may share an array. `unresolvable` marks rejected nodes whose code is
        UnschedulableAndUnresolvable instead.
        """
        keys = np.zeros(size, np.int64)
        bits: Sequence[int] = range(len(checks))
        if len(checks) <= _BITS:
            for bit, (_, holds) in enumerate(checks):
                keys |= holds.astype(np.int64) << bit
            masks: Sequence[int] | None = None
        else:
            # Thousands may hold on the same nodes, as of resources that no node offers.
            distinct_holds = {id(holds): holds for _, holds in checks}
            bit_of = dict(zip(distinct_holds, range(len(distinct_holds)), strict=True))
            bits = [bit_of[id(holds)] for _, holds in checks]
            packed = np.packbits(np.stack(list(distinct_holds.values()), axis=1), axis=1, bitorder="little")
            distinct, inverse = np.unique(packed, axis=0, return_inverse=True)
            masks = [int.from_bytes(together.tobytes(), "little") for together in distinct]
            keys = np.where(np.array([mask != 0 for mask in masks])[inverse], inverse + 1, 0)

        def status_of(key: int) -> Status:
            mask = key if masks is None else masks[key - 1]
            return Status(code, tuple(reason for bit, (reason, _) in zip(bits, checks, strict=True) if mask >> bit & 1))

        if unresolvable is None:
            return cls(keys, status_of)

        def status_of_either(key: int) -> Status:
            status = status_of(key >> 1)
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, status.reasons) if key & 1 else status

        return cls(keys << 1 | (unresolvable & (keys != 0)), status_of_either)


# Reasons that fit in a key as single bits.
_BITS = 62

"""Which kinds of objects a plugin may name in `reads`."""

from collections.abc import Collection

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.volumes.storage_table import STORAGE
from extender_service.framework.interface import Plugin
from extender_service.kube.types.core import Node, Pod

_KINDS: tuple[type, ...] = (*WORKLOADS, *STORAGE)
# Always there: naming them changes nothing.
_ALWAYS: tuple[type, ...] = (Node, Pod)


class ReadsError(ValueError):
    """A plugin's `reads` with what the cluster does not keep; the text says what would be right."""


def check_reads(plugin: Plugin | type[Plugin]) -> None:
    """Raise ReadsError unless the `reads` of a plugin or its class are kinds that the cluster keeps."""
    reads: object = plugin.reads
    right = f"reads must be a frozenset of {', '.join(kind.__name__ for kind in _KINDS)}"
    if isinstance(reads, str) or not isinstance(reads, Collection):
        raise ReadsError(f"{right}; it is {_named(reads)}")
    wrong = sorted(_named(kind) for kind in reads if kind not in (*_KINDS, *_ALWAYS))
    if wrong:
        raise ReadsError(f"{right}; it has {', '.join(wrong)}")


def _named(given: object) -> str:
    return given.__name__ if isinstance(given, type) else repr(given)

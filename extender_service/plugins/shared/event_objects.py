"""The objects that a queueing hint is asked about (util.As in pkg/scheduler/util/utils.go)."""

from typing import TypeVar

from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import Object

O = TypeVar("O", bound=Object)  # noqa: E741 - an object


def old_and_new(kind: type[O], old: object, new: object) -> tuple[O | None, O | None]:
    """Return the object before and after a change, None where it did not exist. Raises PluginError for another kind."""
    if not isinstance(new, kind | None):
        raise _unexpected(kind, new)
    if not isinstance(old, kind | None):
        raise _unexpected(kind, old)
    return old, new


def only_new(kind: type[O], old: object, new: object) -> O:
    """Return the object after a change that was no deletion. Raises PluginError for another kind."""
    found = old_and_new(kind, old, new)[1]
    if found is None:
        raise _unexpected(kind, new)
    return found


def only_old(kind: type[O], old: object, new: object) -> O:
    """Return the object before a change that was no addition. Raises PluginError for another kind."""
    found = old_and_new(kind, old, new)[0]
    if found is None:
        raise _unexpected(kind, old)
    return found


def _unexpected(kind: type[Object], given: object) -> PluginError:
    return PluginError(f"expected {kind.__name__}, but got {type(given).__name__}")

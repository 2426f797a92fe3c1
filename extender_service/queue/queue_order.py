"""The order of the active queue, as a QueueSort plugin has it; a plugin that fails does not end the program."""

import logging
from collections.abc import Callable
from typing import Any

from extender_service.framework.interface import QueueSort
from extender_service.framework.plugin_errors import RAISED
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.queue.queued_pod import QueuedPodInfo

log = logging.getLogger(__name__)


def queue_order(plugin: QueueSort) -> Callable[[QueuedPodInfo], Any]:
    """Return what pods are compared by. Where the plugin fails, any order will do."""
    return plugin.sort_key if type(plugin) is PrioritySort else _Order(plugin)


class _Order:
    """Makes keys of a user's plugin. The queue compares often, so each kind of failure is logged once."""

    def __init__(self, plugin: QueueSort) -> None:
        self._plugin = plugin
        self._logged: set[str] = set()

    def __call__(self, info: QueuedPodInfo) -> "_Key":
        try:
            return _Key(self._plugin.sort_key(info), self)
        except RAISED as error:
            self.failed(error)
            return _Key(None, self)

    def failed(self, error: BaseException) -> None:
        kind = type(error).__name__
        if kind not in self._logged:
            self._logged.add(kind)
            log.error(
                "a QueueSort plugin failed, so pods are tried in another order; later failures of this kind are not "
                "logged",
                exc_info=error,
                extra={"plugin": self._plugin.name, "kind": kind},
            )


class _Key:
    """Compares as the plugin's key does. A comparison that fails ends nothing."""

    __slots__ = ("_key", "_order")

    def __init__(self, key: Any, order: _Order) -> None:
        self._key = key
        self._order = order

    def __lt__(self, other: "_Key") -> bool:
        try:
            return bool(self._key < other._key)
        except RAISED as error:
            self._order.failed(error)
            return False

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Key)
        try:
            return bool(self._key == other._key)
        except RAISED as error:
            self._order.failed(error)
            return True

    __hash__ = None  # type: ignore[assignment]

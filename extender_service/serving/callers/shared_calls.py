"""Calls that are made once for all who ask for the same at the same time, like Go's singleflight."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCalls(Generic[K, V]):
    """At most one call under way for each key, whose outcome is for all who ask until then.

    A call goes on when those who asked are cancelled, as others may ask meanwhile. Those who wait for a call that
    another has started do so within `waiting()`, which may refuse that by an exception.
    """

    def __init__(self, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._waiting = waiting
        self._under_way: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, call: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the result of the call under way for this key, or of this one if there is none; raise what it does."""
        under_way = self._under_way.get(key)
        if under_way is None:
            return await asyncio.shield(self._start(key, call()))
        with self._waiting():
            return await asyncio.shield(under_way)

    def cancel(self) -> None:
        """Cancel all calls under way."""
        for task in self._under_way.values():
            task.cancel()

    def _start(self, key: K, call: Coroutine[Any, Any, V]) -> asyncio.Task[V]:
        task = asyncio.create_task(call)
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._end(key, task))
        return task

    def _end(self, key: K, task: asyncio.Task[V]) -> None:
        self._under_way.pop(key)
        if not task.cancelled():
            task.exception()  # else asyncio logs one for which all have stopped waiting

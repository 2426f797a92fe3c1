"""Authorizes callers as kube-scheduler does (apiserver's delegating authorizer).

A user of the group system:masters may do all, and some paths are open to everyone; about the rest, the API server is
asked.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from extender_service.caches import LruCache
from extender_service.seams import Clock
from extender_service.serving.callers.users import MASTERS_GROUP, UserInfo

_MOST_CACHED = 4096
_CACHE_BYTES = 4 << 20
_LARGEST_KEY = 10_000  # of a question whose answer is kept, as in apiserver's webhook


class Access(NamedTuple):
    """Whether a user may do something; `reason` is the API server's, if it gives one."""

    allowed: bool
    reason: str = ""


class ReviewError(Exception):
    """It cannot be found out whether a user may do something; the text says why."""


ReviewAccess = Callable[[UserInfo, str, str], Awaitable[Access]]
"""Returns whether a user may use a verb (lower case) on a path. Raises ReviewError."""


class Authorizer:
    """Decides what callers may do. Without `review`, only what is open, and to system:masters everything."""

    def __init__(
        self,
        review: ReviewAccess | None,
        *,
        open_paths: Sequence[str],
        allowed_seconds: float,
        denied_seconds: float,
        clock: Clock,
    ) -> None:
        """`open_paths` are paths, or what paths begin with, followed by `*`."""
        self._review = review
        self._open = frozenset(_rooted(path) for path in open_paths if not path.endswith("*"))
        self._open_prefixes = tuple(_rooted(path[:-1]) for path in open_paths if path.endswith("*"))
        self._allowed_seconds = allowed_seconds
        self._denied_seconds = denied_seconds
        self._clock = clock
        self._known: LruCache[bytes, tuple[float, Access] | None] = LruCache(
            "reviews of access", most_entries=_MOST_CACHED, most_bytes=_CACHE_BYTES
        )

    async def may(self, user: UserInfo, verb: str, path: str) -> Access:
        """Return whether a user may use a verb (lower case) on a path. Raises ReviewError."""
        if MASTERS_GROUP in user.groups or path in self._open or path.startswith(self._open_prefixes):
            return Access(allowed=True)
        if self._review is None:
            return Access(allowed=False)
        key = msgspec.json.encode((user, verb, path))
        known = self._known[key]
        if known is not None and self._clock() < known[0]:
            return known[1]
        access = await self._review(user, verb, path)
        if len(key) <= _LARGEST_KEY:
            seconds = self._allowed_seconds if access.allowed else self._denied_seconds
            self._known.keep(key, (self._clock() + seconds, access), len(key) + len(access.reason) + 200)
        return access


def _rooted(path: str) -> str:
    return "/" + path.lstrip("/")

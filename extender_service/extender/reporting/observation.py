"""What is told about each call, for logs and metrics; the rooms above decide what becomes of it."""

from collections.abc import Callable
from typing import Literal

import msgspec

from extender_service.extender.overload.overload import Limit
from extender_service.scheduling.explanation import Grounds

Verb = Literal["filter", "prioritize", "preempt", "bind"]


class Observation(msgspec.Struct, kw_only=True, gc=False):
    """One call of a verb and what came of it.

    `seconds` is what it took, and `at` when it was answered, in seconds since 1970. `asked` and `passed` count nodes;
    `grounds` are what the decision about them rests on; `node_name` is the one chosen or bound to; `ahead`: it was
    decided before the call came; `error` is empty unless the call ended with one; `limit` is the one that this error is
    about, if any.
    """

    verb: Verb
    pod: str
    seconds: float
    at: float = 0.0
    asked: int = 0
    passed: int = 0
    grounds: Grounds | None = None
    node_name: str = ""
    looked_again: bool = False
    ahead: bool = False
    error: str = ""
    limit: Limit = ""


Observer = Callable[[Observation], None]

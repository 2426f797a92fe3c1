"""What is reported about each call, for logs and metrics. The modules that use it decide what to log and count."""

from collections.abc import Callable
from typing import Literal

import msgspec

from extender_service.extender.overload.overload import Limit
from extender_service.scheduling.explanation import Grounds

Verb = Literal["filter", "prioritize", "preempt", "bind"]


class Observation(msgspec.Struct, kw_only=True, gc=False):
    """One call of a verb and its outcome.

    `seconds` is how long it took, and `at` when it was answered, in seconds since 1970. `asked` and `passed` count
    nodes. `grounds` has the parts of the decision that explain it. `node_name` is the node chosen or bound to. `ahead`:
    the decision was made before the call arrived. `error` is empty unless the call ended with an error. `limit` is the
    limit that the call exceeded, if any.
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

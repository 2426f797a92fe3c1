"""Limits of programs that are a few instead of tens or thousands, so that few nodes, pods and requests reach them.

What is decided does not depend on them.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Final
from unittest import mock

from extender_service.queue import queue_dump
from extender_service.scheduler import failure_reports, look_budget, registered_kinds
from extender_service.scheduler.metrics import evaluations, pod_resources
from extender_service.scheduling import eviction, explanation, write_turns
from extender_service.scheduling.reuse import ahead, runs, states_ahead

_SETTING: Final = "small-limits"
_LIMITS: Final[Mapping[ModuleType, Mapping[str, int]]] = {
    ahead: {"_LONGEST_PAUSE": 4},
    evaluations: {"_MOST_SUMS": 2},
    eviction: {"MOST_VICTIMS_AT_ONCE": 2},
    explanation: {"_MOST_REASONS": 1},
    failure_reports: {"MOST_REPORTS_AT_ONCE": 4, "_FEW_PODS": 2},
    look_budget: {"MOST_LOOKS_A_TURN": 2},
    pod_resources: {"_PART_CHARACTERS": 1000},
    queue_dump: {"MOST_LISTED": 3},
    registered_kinds: {"_MOST_OBJECTS": 1},
    runs: {"_NOT_REPEATED": 2},
    states_ahead: {"_NODES_AHEAD": 2, "_STATES_AHEAD": 8, "_WORTHWHILE": 2, "_LONGEST_PAUSE": 4},
    write_turns: {"MOST_HANGING_IN_NAMESPACE": 2, "MOST_HANGING": 3},
}


@contextmanager
def limits_are_small(wanted: Collection[str]) -> Iterator[None]:
    """Let limits be small until the context ends, if that is wanted."""
    with ExitStack() as patched:
        for module, limits in _LIMITS.items() if _SETTING in wanted else ():
            for name, limit in limits.items():
                patched.enter_context(mock.patch.object(module, name, limit))
        yield

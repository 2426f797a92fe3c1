"""Whether this process is alive and may be asked, reported as in k8s.io/apiserver/pkg/server/healthz."""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from extender_service.kube.watching.watch_state import WatchState
from extender_service.seams import Clock

# For so long a state is taken for as good as it was. It gets older at once where a watch turns out to have been dead.
_LOOK_SECONDS = 1.0

# How long decisions may rest on what was last seen of the cluster.
STALE_LIMIT_SECONDS = 30.0

Check = Callable[[], str | None]
"""Says what is wrong in one line; None if nothing is."""


class Report(NamedTuple):
    """The outcome of some checks; `text` lists them one a line, and then the outcome."""

    passed: bool
    text: str


class Health:
    """The checks by name: `liveness` tells whether this process is alive, `readiness` whether it may be asked.

    Ready takes the checks given and those that every process has.
    """

    def __init__(self, readiness: Mapping[str, Check]) -> None:
        self._is_draining = False
        # An answer is all that this check needs: a process whose event loop is stuck gives none.
        self.liveness: Mapping[str, Check] = {"ping": lambda: None}
        self.readiness: Mapping[str, Check] = {**self.liveness, **readiness, "shutdown": self._shutdown}

    def drain(self) -> None:
        """Say that the process is to end: it is not ready any more, though still alive."""
        self._is_draining = True

    def _shutdown(self) -> str | None:
        return "process is shutting down" if self._is_draining else None


def watch_checks(
    watches: Mapping[str, WatchState],
    *,
    stale_limit_seconds: float = STALE_LIMIT_SECONDS,
    clock: Clock = time.monotonic,
) -> dict[str, Check]:
    """Return a check per resource: its list is here, and what it tells is not older than the limit."""
    return {
        f"watch-{resource}": partial(_watch_problem, state, stale_limit_seconds, clock)
        for resource, state in watches.items()
    }


def trust_check(
    watches: Mapping[str, WatchState],
    *,
    stale_limit_seconds: float = STALE_LIMIT_SECONDS,
    clock: Clock = time.monotonic,
) -> Check:
    """Return a check that tells the first problem of `watch_checks`, for each call to ask.

    Once a second, and when the oldest state reaches the limit, it looks at all; otherwise at the clock.
    """
    checks = watch_checks(watches, stale_limit_seconds=stale_limit_seconds, clock=clock)
    good_until = -math.inf

    def check() -> str | None:
        nonlocal good_until
        if clock() <= good_until:
            return None
        problem = first_problem(checks)
        if problem is None:
            oldest_at = min((state.current_at for state in watches.values()), default=math.inf)
            good_until = min(oldest_at + stale_limit_seconds, clock() + _LOOK_SECONDS)
        return problem

    return check


def run_checks(name: str, checks: Mapping[str, Check], excluded: Collection[str] = ()) -> Report:
    """Run the checks but for those `excluded` by name; `name` is what their outcome is reported as."""
    lines = []
    passed = True
    for check_name, check in checks.items():
        if check_name in excluded:
            lines.append(f"[+]{check_name} excluded: ok")
            continue
        problem = check()
        lines.append(f"[+]{check_name} ok" if problem is None else f"[-]{check_name} failed: {problem}")
        passed = passed and problem is None
    unknown = sorted(set(excluded) - set(checks))
    if unknown:
        names = ",".join(json.dumps(check_name) for check_name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    lines.append(f"{name} check {'passed' if passed else 'failed'}\n")
    return Report(passed, "\n".join(lines))


def _watch_problem(state: WatchState, stale_limit_seconds: float, clock: Clock) -> str | None:
    if not state.synced:
        problem = "not synced yet"
    elif (age := clock() - state.current_at) > stale_limit_seconds:
        problem = f"stale for {age:.0f} s"
    else:
        return None
    # The error may quote what a server or proxy sent; a check has one line.
    return f"{problem}: {' '.join(state.last_error.split())}" if state.last_error else problem


def first_problem(checks: Mapping[str, Check]) -> str | None:
    """Return what the first failing check says, with its name; None if all pass."""
    problems = ((name, check()) for name, check in checks.items())
    return next((f"{name} {problem}" for name, problem in problems if problem is not None), None)

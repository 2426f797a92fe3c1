"""Whether this process is alive and may be asked, reported as in k8s.io/apiserver/pkg/server/healthz."""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from extender_service.kube.watching.watch_state import WatchState
from extender_service.seams import Clock

# Seconds for which a good result is reused; few, as the state becomes old at once when a watch turns out to be dead.
_LOOK_SECONDS = 1.0

# Seconds for which decisions may depend on the last known state of the cluster.
STALE_LIMIT_SECONDS = 30.0

Check = Callable[[], str | None]
"""Returns what is wrong, in one line; None if nothing is."""


_NO_CHECKS: Mapping[str, Check] = MappingProxyType({})


class Report(NamedTuple):
    """The outcome of some checks. `text` has a line for each check, and then the outcome.

    `outcomes` has whether a check passed, by name, without those that were excluded.
    """

    passed: bool
    text: str
    outcomes: Mapping[str, bool]


class Health:
    """The checks by name: `liveness` for whether this process is alive, `readiness` for whether it may get calls.

    Readiness has the given checks and those that every process has. `health` is the older of both, /healthz: liveness,
    and what a program adds. `not_judged` returns the fields of pods that were found and are not judged.
    """

    def __init__(
        self,
        readiness: Mapping[str, Check],
        health: Mapping[str, Check] = _NO_CHECKS,
        *,
        not_judged: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._is_draining = False
        self._readiness = readiness
        self._not_judged = not_judged
        # This check has no condition, as a process whose event loop is stuck does not answer.
        self.liveness: Mapping[str, Check] = {"ping": lambda: None}
        self.health: Mapping[str, Check] = {**self.liveness, **health}

    @property
    def readiness(self) -> Mapping[str, Check]:
        """The checks of readiness now. For each field that is not judged, there is one that always passes."""
        not_judged = {f"not-judged-{field}": _passes for field in self._not_judged()}
        return {**self.liveness, **self._readiness, **not_judged, "shutdown": self._shutdown}

    def drain(self) -> None:
        """Note that the process is about to end: it is not ready any more, but still alive."""
        self._is_draining = True

    def _shutdown(self) -> str | None:
        return "process is shutting down" if self._is_draining else None


def watch_checks(
    watches: Mapping[str, WatchState],
    *,
    stale_limit_seconds: float = STALE_LIMIT_SECONDS,
    clock: Clock = time.monotonic,
) -> dict[str, Check]:
    """Return a check per resource. It fails until the first list is applied, and once the state exceeds the limit."""
    return {
        f"watch-{resource}": partial(_watch_problem, state, stale_limit_seconds, clock)
        for resource, state in watches.items()
    }


def release_check(release: str) -> dict[str, Check]:
    """Return a check that always passes: its name shows the release of Kubernetes whose rules decide."""
    return {f"emulated-version-{release}": _passes}


def _passes() -> None:
    """A check whose name is all that it shows."""


def trust_check(
    watches: Mapping[str, WatchState],
    *,
    stale_limit_seconds: float = STALE_LIMIT_SECONDS,
    clock: Clock = time.monotonic,
) -> Check:
    """Return a check that reports the first problem of `watch_checks`, cheap enough to run for each call.

    A good result holds for a second at most, or until the oldest state reaches the limit; until then the check only
    reads the clock.
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
    """Run the checks, except those `excluded` by name; `name` is what the report calls them together."""
    lines = []
    outcomes = {}
    for check_name, check in checks.items():
        if check_name in excluded:
            lines.append(f"[+]{check_name} excluded: ok")
            continue
        problem = check()
        lines.append(f"[+]{check_name} ok" if problem is None else f"[-]{check_name} failed: {problem}")
        outcomes[check_name] = problem is None
    unknown = sorted(set(excluded) - set(checks))
    if unknown:
        names = ",".join(json.dumps(check_name) for check_name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    passed = all(outcomes.values())
    lines.append(f"{name} check {'passed' if passed else 'failed'}\n")
    return Report(passed, "\n".join(lines), outcomes)


def _watch_problem(state: WatchState, stale_limit_seconds: float, clock: Clock) -> str | None:
    if not state.synced:
        problem = "not synced yet"
    elif (age := clock() - state.current_at) > stale_limit_seconds:
        problem = f"stale for {age:.0f} s"
    else:
        return None
    # The error may quote several lines of a server or proxy, but a check has one.
    return f"{problem}: {' '.join(state.last_error.split())}" if state.last_error else problem


def first_problem(checks: Mapping[str, Check]) -> str | None:
    """Return the name and problem of the first check that fails; None if all pass."""
    problems = ((name, check()) for name, check in checks.items())
    return next((f"{name} {problem}" for name, problem in problems if problem is not None), None)

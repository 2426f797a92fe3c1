"""One world, run from its scenario: what came of it."""

import hashlib
import logging
import time
import traceback
from collections.abc import Callable
from typing import Final

import msgspec

from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.settings.narrow_sampling import few_are_enough
from tests.worlds.settings.small_limits import limits_are_small
from tests.worlds.simulation.trace import traced_logs

# Ends the violation that stands for an error in a part of the world that is none of the product's programs.
WORLD_FAILED: Final = "the world itself failed"


class WorldEnd(msgspec.Struct):
    """What came of a world. `violations` are lines; `parts` is what could have been left out, and when each comes."""

    violations: list[str]
    parts: dict[str, float]
    simulated_seconds: float
    real_seconds: float
    steps: int
    bound: int
    pods: int
    digest: str


def end_at_first_violation(cluster: ScheduledCluster) -> None:
    """Let a world that has not run yet end where something goes wrong first: `before` of `run_world`."""
    cluster.holds.observed.violations.on_first = cluster.world.end


def run_world(
    scenario: Scenario, before: Callable[[ScheduledCluster], object] = lambda _: None
) -> tuple[WorldEnd, ScheduledCluster]:
    """Run a world; return what came of it, and the world as it is in the end, with its history.

    `before` is given the world before it runs.
    """
    started = time.perf_counter()
    cluster = ScheduledCluster(scenario)
    before(cluster)
    level = logging.DEBUG if "verbose" in scenario.wanted else logging.INFO
    try:
        with (
            traced_logs(cluster.world.trace, cluster.world.who, level),
            few_are_enough(scenario.wanted),
            limits_are_small(scenario.wanted),
        ):
            cluster.run()
            violations = cluster.problems()
    except Exception:  # a part of the world that is none of the product's programs
        violations = [f"{traceback.format_exc()}{cluster.world.timeline.now:.6f} {WORLD_FAILED}"]
    pods = cluster.pods()
    end = WorldEnd(
        violations=violations,
        parts=cluster.parts.offered,
        simulated_seconds=cluster.world.timeline.now,
        real_seconds=time.perf_counter() - started,
        steps=cluster.world.timeline.steps,
        bound=sum(1 for pod in pods if pod["spec"].get("nodeName")),
        pods=len(pods),
        digest=hashlib.sha256("\n".join(cluster.world.trace.lines).encode()).hexdigest(),
    )
    return end, cluster

"""What no swarm has by itself is seen in worlds that want it, and all holds there."""

import pytest

from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario

# What a kubelet reports of a container while pods are resized.
RESOURCES = '"containerStatuses":['


@pytest.mark.parametrize(
    ("seed", "wanted", "mode", "lines"),
    [
        (4, "slow-volumes", None, ("context deadline exceeded",)),
        (1, "narrow-sampling patient", None, ("preemptionPolicy=Never",)),
        (1, "sidecars scarcity", None, ('"name":"sidecar"', "bound a pod")),
        (1, "devices", None, ('"example.com/gpu":"0"', "Insufficient example.com/gpu")),
        (
            1,
            "resizes scarcity",
            None,
            (" 200 PATCH /api/v1/namespaces/default/pods/pod-", "/resize of resizers", RESOURCES),
        ),
        (1, "start-times", None, ('"startTime":"2026-',)),
        (1, "budgets", None, ('"name":"budget-of-app-2"', "poddisruptionbudgets (status)")),
        (4, "slow-volumes", "replace", ("context deadline exceeded",)),
    ],
)
def test_each_is_seen(seed: int, wanted: str, mode: Mode | None, lines: tuple[str, ...]) -> None:
    left = set(lines)
    for each in range(seed, seed + 5):  # mostly, one is enough
        end, cluster = run_world(
            Scenario(
                each,
                minutes=3.0,
                nodes=3,
                pods=25,
                has_others=True,
                wanted=frozenset(wanted.split()),
                minor=37,
                mode=mode,
            )
        )
        assert end.violations == []
        history = "\n".join(cluster.world.trace.lines)
        left = {each for each in left if each not in history}
        if not left:
            return
    pytest.fail(f"not seen in any of these worlds: {left}")

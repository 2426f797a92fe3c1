"""Plugins that change their minds, and strangers that ask or are asked: worlds have them, and all holds there."""

import pytest

from tests.worlds.finding.world_run import run_world
from tests.worlds.scenarios import Mode, Scenario

_SEEDS = range(6)


@pytest.mark.parametrize(
    ("wanted", "mode", "lines"),
    [
        (
            "batches bursts deadlines fickle jobs replica-sets spread",
            None,
            ("the time for this decision is over", "returns an invalid score", "reach_for must return a Reach"),
        ),
        ("cancels replica-sets", None, ("200 DELETE", "a pod went while extenders were asked about it")),
        ("replica-sets scarcity vague", "preempting", ("a plugin cannot say why it refused a node",)),
        (
            "callers",
            "beside",
            ("gets 200 for preempt", "gets 200 for prioritize", "some of the proposed victims are not"),
        ),
        ("deletions late-calls", "replace", ("late-caller: gets 200 for filter",)),
        ("bindings", "beside", (" passed=1 pod=", "verb=bind")),
        ("verbose", "replace", (" scores=",)),
    ],
)
def test_each_is_seen(wanted: str, mode: Mode | None, lines: tuple[str, ...]) -> None:
    left = set(lines)
    for seed in _SEEDS:
        end, cluster = run_world(
            Scenario(
                seed,
                minutes=3.0,
                nodes=3,
                pods=30,
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

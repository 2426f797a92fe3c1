"""The nodes that are looked at against those that v1.31.1's scheduler looks at, over 200 pods in a row."""

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lockstep.sampling.comparison import REFERENCE, compare
from tests.lockstep.sampling.generator import generate

FIXED = range(20)
FRESH = 10


@pytest.fixture(autouse=True, scope="module")
def reference(build_go: Callable[[Path], Path]) -> None:
    build_go(REFERENCE)


def test_fixed_scripts_agree_on_the_nodes_that_are_looked_at() -> None:
    seen = compare(generate(seed) for seed in FIXED)
    assert seen["sampled"] > 500
    assert seen["failed"] > 10
    assert seen["unfit"] > 10


def test_fresh_scripts_agree_on_the_nodes_that_are_looked_at() -> None:
    first = secrets.randbelow(2**40)
    compare(generate(seed) for seed in range(first, first + FRESH))  # a failure names the seed of its script


def test_another_order_of_nodes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender_service.scheduler.node_order._zone", lambda labels: "")
    with pytest.raises(AssertionError, match="seed"):
        compare(generate(seed) for seed in FIXED[:5])

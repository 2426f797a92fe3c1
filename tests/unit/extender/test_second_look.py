import asyncio
import math
from collections.abc import Callable

import pytest
from msgspec import structs

from extender_service.extender.second_look import PATIENCE_SECONDS, SAVED_SECONDS, SHARE, SecondLook, WaitBudget
from extender_service.kube.types.core import Pod, PodResourceClaim
from extender_service.scheduling.decision import Decision
from tests.support.clock import Clock
from tests.support.engines import EngineOnTwoNodes
from tests.support.objects import make_node, make_pod


def waits_until_refused(budget: WaitBudget) -> int:
    """How many calls in a row may wait for as long as one may."""
    waits = 0
    while allowance := budget.allowance():
        assert allowance == PATIENCE_SECONDS
        budget.spend(allowance)
        waits += 1
    return waits


def test_at_first_there_is_a_second_to_spend() -> None:
    assert waits_until_refused(WaitBudget(Clock())) == pytest.approx(SAVED_SECONDS / PATIENCE_SECONDS, abs=1)


def test_from_then_on_a_twentieth_of_wall_time() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    waits_until_refused(budget)
    waited = 0
    for _ in range(1000):
        clock.pass_seconds(0.1)
        waited += waits_until_refused(budget)
    assert waited * PATIENCE_SECONDS == pytest.approx(100 * SHARE, rel=0.02)


def test_no_more_than_a_second_is_saved_up() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    clock.pass_seconds(1_000_000)
    assert waits_until_refused(budget) <= SAVED_SECONDS / PATIENCE_SECONDS


def test_a_wait_that_took_longer_than_allowed_is_paid_back() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    budget.spend(SAVED_SECONDS + 0.5)
    clock.pass_seconds(10)
    assert budget.allowance() == 0
    clock.pass_seconds(1.01)
    assert budget.allowance() == PATIENCE_SECONDS


LARGE = make_pod("web", requests={"cpu": "5"})
CLAIMS = structs.replace(LARGE, spec=structs.replace(LARGE.spec, resource_claims=(PodResourceClaim("gpu"),)))


def look(pod: Pod, *names: str, meanwhile: Callable[[EngineOnTwoNodes], None]) -> str:
    """Ask about a pod that does not fit while something happens; returns how many nodes pass, and when."""
    world = EngineOnTwoNodes()
    second_look = SecondLook(world.cluster, Clock())

    def decide() -> Decision:
        return world.engine.decide(structs.replace(world.question(pod, *names), refuses_unsupported=True))

    async def decided() -> str:
        looking = asyncio.create_task(second_look.decide(decide(), decide, math.inf))
        await asyncio.sleep(0)
        meanwhile(world)
        decision, looked_again = await looking
        return f"{len(decision.feasible)} after a wait" if looked_again else f"{len(decision.feasible)} at once"

    return asyncio.run(decided())


def grow(world: EngineOnTwoNodes) -> None:
    world.cluster.apply_node(make_node("a", {"cpu": "8", "pods": "10"}))


def test_a_change_that_helps_is_seen() -> None:
    assert look(LARGE, "a", "b", meanwhile=grow) == "1 after a wait"


def test_where_nothing_helps_the_refusal_comes_after_the_wait() -> None:
    assert look(LARGE, "a", "b", meanwhile=lambda world: None) == "0 after a wait"


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        pytest.param(CLAIMS, ("a", "b"), id="the pod is refused as it is"),
        pytest.param(make_pod("web", requests={"cpu": "5"}, nominated="a"), ("a",), id="the nominated node alone"),
    ],
)
def test_what_no_change_can_help_is_refused_at_once(pod: Pod, names: tuple[str, ...]) -> None:
    assert look(pod, *names, meanwhile=grow) == "0 at once"


def test_no_time_is_spent_after_the_deadline() -> None:
    world = EngineOnTwoNodes()
    refused = world.engine.decide(world.question(LARGE))
    clock = Clock()
    look_again = SecondLook(world.cluster, clock).decide(refused, lambda: refused, clock() - 1)
    assert asyncio.run(look_again) == (refused, False)

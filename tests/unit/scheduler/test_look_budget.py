import asyncio

from extender_service.scheduler.look_budget import MOST_LOOKS_A_TURN, LookBudget
from tests.support.clusters.scheduler_world import turns
from tests.support.event_loop import in_event_loop


class Pods:
    """Pods that come back at once, and who has come back by now."""

    def __init__(self, *looks: int) -> None:
        self.back: list[int] = []
        self.budget = LookBudget()
        self.tasks = [asyncio.create_task(self._come(number, each)) for number, each in enumerate(looks)]

    async def _come(self, number: int, looks: int) -> None:
        await self.budget.take(looks)
        self.back.append(number)

    async def back_by_turn(self) -> list[list[int]]:
        """The pods that come back in each turn, without the turns in which none does."""
        found = []
        while not all(task.done() for task in self.tasks):
            before = len(self.back)
            await turns(1)
            if self.back[before:]:
                found.append(self.back[before:])
        return found


@in_event_loop
async def test_pods_come_back_in_the_turn_in_which_looks_are_left() -> None:
    most = MOST_LOOKS_A_TURN
    assert await Pods(most // 2, most // 2, 1, most, 1).back_by_turn() == [[0, 1], [2, 3], [4]]
    assert await Pods(5 * most, 5 * most, 5 * most).back_by_turn() == [[0], [1], [2]]
    assert await Pods(*[1] * 100).back_by_turn() == [[*range(100)]]


@in_event_loop
async def test_a_pod_that_has_missed_nothing_waits_for_no_other() -> None:
    assert await Pods(MOST_LOOKS_A_TURN, 1, 0).back_by_turn() == [[0, 2], [1]]


@in_event_loop
async def test_a_pod_that_is_given_up_takes_no_looks() -> None:
    most = MOST_LOOKS_A_TURN
    pods = Pods(most, most, most, 1)
    await turns(1)
    pods.tasks[1].cancel()
    pods.tasks[2].cancel()
    assert await pods.back_by_turn() == [[3]]
    assert not pods.budget._waiting

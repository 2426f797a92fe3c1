"""What has happened counts from when the watches of a scheduler show it."""

import pytest

from tests.support.event_loop import in_event_loop
from tests.worlds.waits.waiting import Waiting

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.mark.parametrize("is_late", [True, False])
@in_event_loop
async def test_a_change_counts_from_when_the_watch_shows_it(is_late: bool) -> None:
    waiting = Waiting(31, is_tainted=True)
    waiting.change()
    for _ in range(30):
        waiting.look(sees=not is_late)
    waiting.info.queued_at += 30.0  # it was tried again
    waiting.look(sees=not is_late)
    for _ in range(20):
        waiting.look(sees=not is_late)
    waiting.look()
    waiting.leave()
    waiting.look()
    assert waiting.is_excused() == is_late


@in_event_loop
async def test_a_restore_of_etcd_may_change_each_node_and_take_pods_from_it() -> None:
    waiting = Waiting(31, is_tainted=True)
    waiting.etcd.restore(waiting.etcd.save(), bump_revision=1000)
    waiting.look()
    assert waiting.is_excused()
    waiting.observed.world.run(70.0)
    waiting.look()
    waiting.try_again(60.0)
    assert not waiting.is_excused()

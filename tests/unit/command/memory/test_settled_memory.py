import gc

from extender_service.command.memory.settled_memory import settle_memory
from extender_service.seams import Machine


def test_garbage_is_looked_for_less_often_once_the_cluster_is_known() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        settled: list[bool] = []
        settle_memory(Machine(memory_settled=lambda: settled.append(True)))
        assert settled
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] >= 50_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)

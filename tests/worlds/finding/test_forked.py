"""Work in forked processes: its answers, its errors, and its bounds."""

import os
import time
from collections.abc import Iterator

from tests.worlds.finding.forked import Ended, Limits, forked

MIB = 1024 * 1024
TWO = Limits(jobs=2, seconds=60.0)


def work(task: str) -> bytes:
    match task:
        case "fails":
            raise ValueError("no such thing")
        case "hangs":
            time.sleep(60.0)
        case "is greedy":
            return bytes(1024 * MIB)
        case "dies":
            os.kill(os.getpid(), 9)
    return f"{task} in {os.getpid()}".encode()


def ended(*tasks: str, limits: Limits = TWO) -> dict[str, Ended[str]]:
    return {end.task: end for end in forked(tasks, work, limits)}


def test_each_task_has_a_process_of_its_own() -> None:
    ends = ended("a", "b", "c")
    pids = {str(end.answer).split()[-1] for end in ends.values()}
    assert ends.keys() == {"a", "b", "c"}
    assert len(pids) == 3
    assert str(os.getpid()) not in pids
    assert all(end.peak_bytes > MIB for end in ends.values())


def test_says_why_there_is_no_answer() -> None:
    ends = ended("fails", "dies", "fine")
    assert ends["fails"].why.endswith("ValueError: no such thing")
    assert "Traceback" in ends["fails"].why
    assert ends["dies"].why == "its process ended with -9"
    assert ends["fine"].answer is not None


def test_ends_a_process_that_takes_too_long() -> None:
    ends = ended("hangs", "fine", limits=Limits(jobs=2, seconds=1.0))
    assert ends["hangs"].why == "it did not end in time, and was killed"
    assert ends["fine"].answer is not None


def test_ends_a_process_that_takes_too_much_memory() -> None:
    ends = ended("is greedy", limits=Limits(jobs=1, seconds=60.0, memory_bytes=600 * MIB))
    assert "MemoryError" in ends["is greedy"].why


def test_asks_for_the_next_task_when_a_process_is_free_and_ends_all_with_the_caller() -> None:
    asked = []

    def tasks() -> Iterator[str]:
        for task in ("fine", "hangs", "hangs", "fine", "fine"):
            asked.append(task)
            yield task

    for end in forked(tasks(), work, TWO):
        assert end.task == "fine"
        break
    assert asked[:2] == ["fine", "hangs"]
    assert len(asked) < 5

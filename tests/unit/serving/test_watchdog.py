"""In processes of their own, since these are ended."""

import json
import signal
import subprocess
import sys

import pytest

from extender_service.serving.watchdog import EXIT_STUCK
from tests.support.first_process import run_as_first_process

PROGRAM = """
import asyncio, logging, os, re, signal, sys, time
import uvloop
from extender_service.observability.logs import configure_logging
from extender_service.serving.watchdog import watchdog

configure_logging(logging.INFO, "json")

def gets_stuck_in_a_loop():
    while True:
        pass

def gets_stuck_in_waiting():
    time.sleep(1000)

def gets_stuck_in_a_regular_expression():
    re.match("(a+)+b", "a" * 100)

def is_busy_but_gives_way():
    return asyncio.sleep(0)

def is_suspended():
    # Another process, as this one cannot wake itself.
    if os.fork() == 0:
        time.sleep(4 * LIMIT)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)

async def main(work, turns):
    with watchdog(LIMIT):
        await asyncio.sleep(LIMIT / 4)
        for _ in range(turns):
            answer = work()
            if answer is not None:
                await answer
            await asyncio.sleep(LIMIT / 100)
    print("done")

LIMIT = float(sys.argv[1])
uvloop.run(main(globals()[sys.argv[2]], int(sys.argv[3])))
"""


def outcome(limit_seconds: float, work: str, turns: int = 1) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(limit_seconds), work, str(turns)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("work", ["gets_stuck_in_a_loop", "gets_stuck_in_waiting"])
def test_code_that_does_not_return_ends_the_process_with_its_stack(work: str) -> None:
    ended = outcome(0.5, work)
    assert ended.returncode == EXIT_STUCK, ended.stderr
    (line,) = map(json.loads, ended.stderr.splitlines())
    assert "(--watchdog-timeout)" in line["msg"]
    assert f"in {work}" in line["stack"]
    assert line["exit_status"] == EXIT_STUCK


def test_so_does_code_that_keeps_threads_from_running() -> None:
    ended = outcome(0.5, "gets_stuck_in_a_regular_expression")
    assert ended.returncode == -signal.SIGPROF
    assert "in gets_stuck_in_a_regular_expression" in ended.stderr


@pytest.mark.parametrize(
    ("work", "status"),
    [("gets_stuck_in_a_loop", EXIT_STUCK), ("gets_stuck_in_a_regular_expression", signal.SIGPROF)],
)
def test_both_end_the_first_process_of_a_container(work: str, status: int) -> None:
    ended = run_as_first_process(PROGRAM, "0.5", work, "1")
    assert ended.returncode == status
    assert f"in {work}" in ended.stderr


@pytest.mark.parametrize(("work", "turns"), [("is_busy_but_gives_way", 150), ("is_suspended", 2)])
def test_work_that_gives_way_and_suspension_do_not(work: str, turns: int) -> None:
    ended = outcome(0.5, work, turns)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_nothing_is_watched_without_a_limit() -> None:
    assert outcome(0, "is_busy_but_gives_way").stdout == "done\n"

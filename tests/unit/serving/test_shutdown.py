import os
import signal
import subprocess
import sys

import pytest

from extender_service.serving.shutdown import Shutdown
from tests.support.clock import Clock
from tests.support.first_process import run_as_first_process

BOTH = (signal.SIGTERM, signal.SIGINT)
# Does not come back from being told.
STUCK = """
import time
from extender_service.serving.shutdown import Shutdown

def stuck():
    print("told", flush=True)
    while True:
        pass

with Shutdown(1, 20).signals(stuck):
    print("ready", flush=True)
    time.sleep(60)
"""

# Gets a second signal while it is stuck in what the first one had it do.
STUCK_TWICE = """
import os, signal, sys
from extender_service.serving.shutdown import Shutdown

def stuck():
    os.kill(os.getpid(), int(sys.argv[1]))
    print("still there")
    sys.exit(0)

with Shutdown(1, 20).signals(stuck):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("number", BOTH)
def test_it_is_told_by_a_signal(number: signal.Signals) -> None:
    shutdown = Shutdown(1, 20)
    told = [shutdown.is_told]
    before = [signal.getsignal(each) for each in BOTH]

    with shutdown.signals(lambda: told.append(shutdown.is_told)):
        os.kill(os.getpid(), number)

    assert told == [False, True]
    assert [signal.getsignal(each) for each in BOTH] == before


@pytest.mark.parametrize("second", BOTH)
def test_a_second_signal_ends_the_process_at_once_though_it_is_stuck(second: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        process.send_signal(second)
        assert process.wait(20) == -second


@pytest.mark.parametrize("second", BOTH)
def test_it_also_ends_the_first_process_of_a_container(second: signal.Signals) -> None:
    ended = run_as_first_process(STUCK_TWICE, str(int(second)))
    assert (ended.returncode, ended.stdout, ended.stderr) == (second, "", "")


def test_all_phases_share_one_budget() -> None:
    clock = Clock()
    shutdown = Shutdown(5, 20, clock)

    def left() -> list[float]:
        phases = (shutdown.delay_left, shutdown.work_left, shutdown.answers_left, shutdown.events_left)
        return [round(seconds, 6) for seconds in phases]

    assert left() == [5, 16, 18, 19.5]
    clock.pass_seconds(1000)
    assert left() == [5, 16, 18, 19.5]
    with shutdown.signals(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
    clock.pass_seconds(4)
    assert left() == [1, 12, 14, 15.5]
    clock.pass_seconds(13)
    assert left() == [0, 0, 1, 2.5]
    clock.pass_seconds(1000)
    assert left() == [0, 0, 0, 0]


def test_a_short_time_leaves_some_for_events_after_the_last_answer() -> None:
    shutdown = Shutdown(0, 2, Clock())
    assert [round(left, 6) for left in (shutdown.work_left, shutdown.answers_left, shutdown.events_left)] == [
        1.6,
        1.8,
        1.9,
    ]

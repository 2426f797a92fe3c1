import signal

from extender_service.serving.process_end import set_signal_handler
from tests.support.first_process import run_as_first_process

HANDLES = """
import os, signal
from extender_service.serving.process_end import set_signal_handler

def handle(number, _frame):
    print("handled", flush=True)

set_signal_handler(signal.SIGTERM, signal.SIG_DFL)
assert set_signal_handler(signal.SIGTERM, handle) == signal.SIG_DFL
os.kill(os.getpid(), signal.SIGTERM)
assert set_signal_handler(signal.SIGTERM, signal.SIG_IGN) is handle
os.kill(os.getpid(), signal.SIGTERM)
set_signal_handler(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
print("not ended")
"""


def test_in_the_first_process_of_a_container_handlers_count_and_else_the_signal_ends_it() -> None:
    ended = run_as_first_process(HANDLES)
    assert (ended.returncode, ended.stdout) == (signal.SIGTERM, "handled\n"), ended.stderr


def test_elsewhere_it_is_what_python_does() -> None:
    before = set_signal_handler(signal.SIGUSR1, signal.SIG_IGN)
    assert set_signal_handler(signal.SIGUSR1, before) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGUSR1) == before

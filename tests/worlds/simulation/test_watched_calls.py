"""What the product takes from the system itself is found, and nothing else."""

import os

import pytest

from tests.worlds.simulation.watched_calls import watched_calls


def found(code: str, module: str = "extender_service.some_module") -> set[str]:
    """What is found where a module does this."""
    compiled = compile(code, "some_module.py", "exec")
    with watched_calls() as calls:
        exec(compiled, {"__name__": module, "null": os.devnull})
    return {call.partition(" in ")[0] for call in calls}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import time\ntime.time()", "time"),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", "datetime.now"),
        ("import random\nrandom.random()", "random.random"),
        ("import os\nos.getpid()", "getpid"),
        ("import socket\nsocket.gethostname()", "gethostname"),
        ("open(null).close()", "open"),
        ("import os\nos.close(os.open(null, os.O_RDONLY))", "open"),
        ("from pathlib import Path\nPath(null).open().close()", "Path.open"),
        ("from pathlib import Path\nPath(null).write_text('')", "Path.write_text"),
        ("import socket\nsocket.socket().close()", "socket.__init__"),
        ("import socket\nsocket.create_server(('127.0.0.1', 0)).close()", "create_server"),
        ("import threading\nthread = threading.Thread(target=int)\nthread.start()\nthread.join()", "Thread.start"),
        ("import subprocess\nwith subprocess.Popen(['true']): pass", "Popen.__init__"),
        ("import subprocess\nsubprocess.run(['true'])", "run"),
    ],
)
def test_what_the_product_takes_from_the_system_is_found(code: str, name: str) -> None:
    assert found(code) == {name}


def test_what_others_take_is_not_found() -> None:
    code = "import socket, time\ntime.time()\nsocket.socket().close()"
    assert found(code, "some_library") == set()


def test_a_configuration_may_be_read() -> None:
    assert found("from pathlib import Path\nPath(null).read_text()") == set()

"""Programs as the first process of a PID namespace, as in a container: many signals do nothing there by default."""

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

# util-linux's; who is not root becomes root of a namespace of users.
_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", *(() if os.geteuid() == 0 else ("--map-root-user",)))


def run_as_first_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as the first process of a namespace; skips the test where that may not be done, except in CI."""
    if not _may_be_first() and os.environ.get("CI") != "true":
        pytest.skip("a first process needs a kernel, and rights, for namespaces of processes (unshare --pid)")
    command = [*_UNSHARE, sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@cache
def _may_be_first() -> bool:
    if shutil.which(_UNSHARE[0]) is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode == 0

"""`make help` lists what the Makefile makes."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_help_lists_the_targets_and_nothing_else() -> None:
    # `make test` runs this test, too, and a make inside another one prints the folder that it works in.
    command = ["make", "--no-print-directory", "help"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    listed = re.findall(r"^make ([\w-]+)", printed, re.MULTILINE)
    assert [line for line in printed.splitlines() if not line.startswith(("make ", "    "))] == []

    [phony] = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(set(phony.replace("\\\n", " ").split()) - {"help"})

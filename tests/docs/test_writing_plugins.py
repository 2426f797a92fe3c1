"""Every command of docs/writing-plugins.md runs as it is written there, and prints what the page says it prints.

A fenced block that begins with ```LANGUAGE file=NAME is a file of the reader's. Blocks of sh are run, one after the
other, in one shell that stops at the first failure; those with needs=PROGRAM only where the program works. A block of
text or json that follows is what was printed: text is compared but for its numbers, json by its values.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.servers.free_ports import free_port

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "writing-plugins.md"
BLOCK = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_SECONDS = 240
PORT = "8899"
# How to tell that a program is there and works.
WORKS = {"docker": ("docker", "info"), "kubectl": ("kubectl", "version", "--client")}


class Block(NamedTuple):
    language: str
    attribute: str
    value: str
    text: str


def test_the_commands_do_what_the_guide_says(tmp_path: Path) -> None:
    blocks = [Block(*found) for found in BLOCK.findall(GUIDE.read_text())]
    (tmp_path / "extender-service").symlink_to(ROOT)

    printed = run(script(blocks, with_port=free_port()), tmp_path)

    shown = {number: blocks[number + 1] for number in printed if number + 1 < len(blocks)}
    compared = {number: block.language for number, block in shown.items() if block.language in ("text", "json")}
    for number, language in compared.items():
        assert readable(language, printed[number]) == readable(language, shown[number].text)
    assert len(compared) >= 8


def script(blocks: list[Block], with_port: int) -> str:
    """The reader's work as a shell script, which marks where the output of each block of sh begins."""
    lines = []
    for number, block in enumerate(blocks):
        if block.attribute == "file":
            folder = Path(block.value).parent
            lines.append(f"mkdir -p {folder}\ncat > {block.value} <<'END OF FILE'\n{block.text}END OF FILE")
        elif block.language == "sh":
            assert block.attribute in ("", "needs"), f"a block with {block.attribute}="
            if not block.value or works(block.value):
                # Nobody types faster than that, and of a call the log tells a moment later.
                lines.append(f"sleep 0.1\nprintf '\\n@@@ {number}\\n'\n{block.text}")
    return "\n".join(lines).replace(PORT, str(with_port))


def run(commands: str, folder: Path) -> dict[int, str]:
    """Run a script, and end whatever it leaves running. Returns what each block of sh printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "NO_PROXY": "127.0.0.1"
    }
    command = ["bash", "-e", "-u", "-o", "pipefail", "-c", commands]
    shell = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=LIMIT_SECONDS)
    finally:
        kill_group(shell.pid)
        shell.wait()
    assert shell.returncode == 0, output
    return dict(parts(output))


def kill_group(group: int) -> None:
    """Kill what is left of a process group."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def parts(output: str) -> Iterator[tuple[int, str]]:
    marked = re.split(r"^@@@ (\d+)\n", output, flags=re.MULTILINE)
    assert not marked[0].strip(), marked[0]
    for number, text in zip(marked[1::2], marked[2::2], strict=True):
        yield int(number), text


def readable(language: str, text: str) -> object:
    return json.loads(text) if language == "json" else re.sub(r"\d+(\.\d+)?", "N", " ".join(text.split()))


def works(program: str) -> bool:
    return shutil.which(program) is not None and subprocess.run(WORKS[program], capture_output=True).returncode == 0

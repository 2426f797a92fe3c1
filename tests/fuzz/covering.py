"""Inputs that reach much of the service's code: those that are kept, and those that atheris finds besides.

`python -m tests.fuzz.covering --seconds N` looks for more and keeps what reaches most with the least. atheris is in the
dependency group "fuzz".
"""

import argparse
import gzip
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.bodies import all_calls
from tests.fuzz.cluster import golden_cluster
from tests.fuzz.requests import VERBS, Request

KEPT = Path(__file__).with_name("corpus") / "covering.jsonl.gz"

_MOST_BYTES = 3000


def explored(directory: Path, seconds: int, seed: int) -> list[Request]:
    """What is kept, and what is found in so many seconds. Raises RuntimeError for an input that must not be one."""
    corpus = _explore(directory, seconds, seed) if seconds else []
    return [Request.call(VERBS[data[0] % len(VERBS)], data[1:]) for data in sorted({*_kept(), *corpus}) if data]


def _kept() -> list[bytes]:
    with gzip.open(KEPT, "rt") as lines:
        return [json.loads(line).encode("latin-1") for line in lines]


def _explore(directory: Path, seconds: int, seed: int) -> list[bytes]:
    """The least inputs that reach what is reached in so many seconds."""
    every, least = directory / "every-input", directory / "least-inputs"
    every.mkdir()
    least.mkdir()
    calls = [bytes([VERBS.index(call.verb)]) + call.body for call in all_calls(golden_cluster())]
    for number, data in enumerate([*_kept(), *calls]):
        if len(data) <= _MOST_BYTES:
            (every / str(number)).write_bytes(data)
    print(_atheris(directory, f"-max_total_time={seconds}", f"-seed={seed + 1}", every))
    print(_atheris(directory, "-merge=1", least, every))
    return [file.read_bytes() for file in least.iterdir()]


def _atheris(directory: Path, *options: str | Path) -> str:
    """Run libFuzzer; returns what it sums up."""
    program, cluster_file = directory / "target", directory / "cluster.json"
    cluster_file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": golden_cluster().objects}))
    # libFuzzer starts itself again where it merges.
    target = [sys.executable, "-m", "tests.fuzz.covering_target", str(program), str(cluster_file)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(target)} "$@"\n')
    program.chmod(0o700)
    limits = [f"-max_len={_MOST_BYTES}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={directory}/found-"]
    done = subprocess.run([program, *limits, *options], capture_output=True, text=True, errors="replace")
    if done.returncode:
        found = [file.read_bytes() for file in directory.glob("found-*")]
        said = done.stderr.partition("Uncaught Python exception")[2] or done.stderr[-2000:]
        raise RuntimeError(f"atheris ended with {done.returncode}: {found}\n{said[:2000]}")
    return "\n".join(line for line in done.stderr.splitlines() if re.search("INITED|DONE|new coverage", line))


def main(arguments: Sequence[str] | None = None) -> None:
    """Look for inputs, and keep them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.covering", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        inputs = _explore(Path(directory), options.seconds, options.seed)
    lines = "".join(json.dumps(data.decode("latin-1")) + "\n" for data in sorted(inputs))
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()

"""Inputs that reach much of the service's code: those that are kept, and those that atheris finds besides.

`python -m tests.fuzz.covering --seconds N` looks for more and keeps what reaches most with the least. atheris is in the
dependency group "fuzz".
"""

import argparse
import gzip
import json
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
    """What is kept, and what is found in so many seconds. Raises RuntimeError for an input that should not be one."""
    found = _found(directory / "covering", seconds, seed) if seconds else []
    return [Request.call(VERBS[data[0] % len(VERBS)], data[1:]) for data in (*_kept(), *found) if data]


def _kept() -> list[bytes]:
    with gzip.open(KEPT, "rt") as lines:
        return [json.loads(line).encode("latin-1") for line in lines]


def _found(directory: Path, seconds: int, seed: int) -> list[bytes]:
    corpus = directory / "corpus"
    corpus.mkdir(parents=True)
    seeds = [bytes([VERBS.index(call.verb)]) + call.body for call in all_calls(golden_cluster())]
    for number, data in enumerate([*_kept(), *(data for data in seeds if len(data) <= _MOST_BYTES)]):
        (corpus / f"seed-{number}").write_bytes(data)
    _run_atheris(directory, f"-max_total_time={seconds}", f"-seed={seed + 1}", corpus)
    return [file.read_bytes() for file in sorted(corpus.iterdir()) if not file.name.startswith("seed-")]


def _run_atheris(directory: Path, *options: str | Path) -> None:
    cluster_file = directory / "cluster.json"
    cluster_file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": golden_cluster().objects}))
    limits = [f"-max_len={_MOST_BYTES}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={directory}/"]
    command = [sys.executable, "-m", "tests.fuzz.covering_target", cluster_file, *limits, *options]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    print(*(line for line in done.stderr.splitlines() if "INITED" in line or "DONE" in line), sep="\n")
    if done.returncode:
        inputs = [file.read_bytes() for file in directory.glob("*-*") if file.is_file()]
        raise RuntimeError(f"atheris ended with {done.returncode}: {inputs}\n{done.stderr[-3000:]}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Look for inputs, and keep them."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.covering", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        found = _found(Path(directory), options.seconds, seed=0)
    lines = "".join(json.dumps(data.decode("latin-1")) + "\n" for data in sorted(found))
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()

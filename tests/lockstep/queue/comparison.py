"""Compares our scheduling queue with kube-scheduler's, in every state of many scripts."""

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.lockstep.queue.generator import Script
from tests.lockstep.queue.replay import replay
from tests.support.go_programs import build

REFERENCE = Path(__file__).parents[1] / "reference_queue"


def compare(scripts: Iterable[Script]) -> Counter[str]:
    """Run scripts on both queues, and return what happened, with counts. Raises DifferenceError."""
    seen: Counter[str] = Counter()
    written = list(scripts)
    for script, states in zip(written, _reference_states(written), strict=True):
        seen += replay(script, states)
        seen["scripts"] += 1
    return seen


def _reference_states(scripts: list[Script]) -> Iterable[list[dict[str, object]]]:
    """Return the states of kube-scheduler's queue for each script. Raises RuntimeError with what the program said."""
    lines = b"\n".join(msgspec.json.encode(script) for script in scripts)
    done = subprocess.run([build(REFERENCE)], input=lines, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"the reference queue failed: {done.stderr.decode()}")
    decoder = msgspec.json.Decoder(list[dict[str, object]])
    return (decoder.decode(line) for line in done.stdout.splitlines())

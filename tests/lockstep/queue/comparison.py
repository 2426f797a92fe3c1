"""Compares our scheduling queue with kube-scheduler's, in every state of many scripts."""

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from extender_service.config.release import OLDEST_MINOR
from tests.lockstep.action_bits import with_bits
from tests.lockstep.queue.generator import Script
from tests.lockstep.queue.replay import replay
from tests.support.go_programs import build

_TESTS = Path(__file__).parents[2]
# The programs that drive kube-scheduler's queue, by minor release.
REFERENCES = {
    31: _TESTS / "lockstep" / "reference_queue",
    37: _TESTS / "kubernetes_1_37" / "reference_queue_1_37",
}


def compare(scripts: Iterable[Script], minor: int = OLDEST_MINOR) -> Counter[str]:
    """Run scripts on both queues, and return what happened, with counts. Raises DifferenceError."""
    seen: Counter[str] = Counter()
    written = list(scripts)
    for script, states in zip(written, _reference_states(written, minor), strict=True):
        seen += replay(script, states, minor)
        seen["scripts"] += 1
    return seen


def _reference_states(scripts: list[Script], minor: int) -> Iterable[list[dict[str, object]]]:
    """Return the states of kube-scheduler's queue for each script. Raises RuntimeError with what the program said."""
    lines = b"\n".join(msgspec.json.encode(with_bits(script, minor)) for script in scripts)
    done = subprocess.run([build(REFERENCES[minor])], input=lines, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"the reference queue failed: {done.stderr.decode()}")
    decoder = msgspec.json.Decoder(list[dict[str, object]])
    return (decoder.decode(line) for line in done.stdout.splitlines())

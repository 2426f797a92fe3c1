"""What is compared with kube-scheduler's cycle in process."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import decision, synthetic
from bench.decision import compare, default_engine
from bench.programs import ClusterSize, Peers
from bench.report import Report
from bench.run import Run

PLAIN = "plain"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def taking(self, milliseconds: float, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that takes so long."""

        def slow(*arguments: Any) -> Any:
            self.seconds += milliseconds / 1000
            return method(*arguments)

        return slow


class KnownPeers(Peers):
    """Peers with a `kubecycle` that takes 8 ms."""

    def _lines(self, program: str, *options: str) -> list[dict[str, Any]]:
        return [{"class": PLAIN, "p50_ms": 8.0, "p99_ms": 8.0}]


def test_a_decision_is_compared_together_with_what_it_takes_to_count_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, engine, lines = Clock(), default_engine(synthetic.cluster(20, 2)), io.StringIO()
    monkeypatch.setattr(decision, "time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(engine, "decide", clock.taking(1, engine.decide))
    monkeypatch.setattr(engine, "prepare", clock.taking(3, engine.prepare))
    the = Run(quick=True, rounds=1, report=Report(lines), peers=KnownPeers(tmp_path), directory=tmp_path)

    compare(the, ClusterSize(20, 2), engine, {PLAIN: synthetic.pending_pod(PLAIN)})

    [row] = [json.loads(line) for line in lines.getvalue().splitlines()]
    times = [row[column] for column in ("decision", "p50", "peer p50", "times faster")]
    assert times == pytest.approx([1, 4, 8, 2])

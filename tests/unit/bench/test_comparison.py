"""A series of measurements loses nothing that has ended, and goes on after an error."""

import io
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.figures import Times
from bench.programs import Peers
from bench.report import Report
from bench.run import Run
from bench.scheduler import comparison
from bench.scheduler.choice import Choice
from bench.scheduler.comparison import compare
from bench.scheduler.contestants import CONTESTANTS, SCHEDULE, STOCK
from bench.scheduler.measurement import Pace
from bench.scheduler.scenes import Scene

PACE = Pace(100.0, 300, Times(1.0, 2.0), 0, 0, {})


class Bench:
    """Compares `schedule` with stock, which is not measured, with no server behind it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines = io.StringIO()

    def compare(self, workload: str = "basic") -> None:
        peers, report = Peers(self._directory), Report(self._lines)
        self.report = report
        run = Run(quick=True, rounds=1, report=report, peers=peers, directory=self._directory)
        compare(run, Choice("stub", nodes=10, workloads=[workload], programs=[STOCK, SCHEDULE]))

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """The lines of tables with such a title, by program."""
        lines = [json.loads(line) for line in self._lines.getvalue().splitlines()]
        return {line["program"]: line for line in lines if line["table"].endswith(table)}


@contextmanager
def no_site(peers: Peers, directory: Path, scene: Scene) -> Iterator[Any]:
    yield lambda: nullcontext(SimpleNamespace(kubeconfig=Path()))


def measure_all_but_stock(server: object, scene: Scene, start: object, *more: object) -> Pace:
    if start is CONTESTANTS[STOCK]:
        raise TimeoutError("it has written nothing")
    return PACE


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.setattr(comparison, "stub_site", no_site)
    monkeypatch.setattr(comparison, "measure", measure_all_but_stock)
    judge_with(monkeypatch, lambda: (3, []))
    return Bench(tmp_path)


def judge_with(monkeypatch: pytest.MonkeyPatch, judge: Any) -> None:
    monkeypatch.setattr(comparison, "Judge", lambda *of: SimpleNamespace(judge=lambda placements: judge()))


def test_an_error_fails_one_measurement_and_the_others_go_on(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.compare()
    for table in ("one measurement", "300 pods"):
        rows = bench.rows(table)
        assert (rows[STOCK]["failed"], rows[STOCK]["bound"], rows[STOCK]["pods/s"]) == (1, 0, None)
        assert (rows[SCHEDULE]["failed"], rows[SCHEDULE]["bound"], rows[SCHEDULE]["pods/s"]) == (None, 300, 100.0)
    assert "stock was not measured: TimeoutError('it has written nothing')" in capsys.readouterr().out


@contextmanager
def untidy(peers: Peers, directory: Path, scene: Scene) -> Iterator[Any]:
    @contextmanager
    def server() -> Iterator[Any]:
        yield SimpleNamespace(kubeconfig=Path())
        raise TimeoutError("pods are left")

    yield server


def test_a_measurement_counts_though_tidying_up_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "stub_site", untidy)
    bench.compare()
    for table in ("one measurement", "300 pods"):
        row = bench.rows(table)[SCHEDULE]
        assert (row["failed"], row["pods/s"]) == (None, 100.0)
    assert bench.report.has_failed


def nowhere(peers: Peers, directory: Path, scene: Scene) -> AbstractContextManager[Any]:
    raise OSError("no port is free")


def test_a_server_that_does_not_start_ends_its_workload_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison, "stub_site", nowhere)
    bench.compare()
    assert "basic: no more of it is measured: OSError('no port is free')" in capsys.readouterr().out
    assert bench.report.has_failed


def test_a_measurement_is_written_down_before_it_is_judged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended_by_the_user() -> None:
        raise KeyboardInterrupt

    judge_with(monkeypatch, ended_by_the_user)
    with pytest.raises(KeyboardInterrupt):
        bench.compare()
    assert bench.rows("one measurement")[SCHEDULE]["pods/s"] == 100.0


def test_what_cannot_be_judged_was_measured_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("the oracle has ended")

    judge_with(monkeypatch, fail)
    bench.compare()
    row = bench.rows("300 pods")[SCHEDULE]
    assert (row["pods/s"], row["failed"], row["judged"]) == (100.0, None, None)
    assert "not judged: RuntimeError('the oracle has ended')" in capsys.readouterr().out


def test_placements_that_are_worse_are_counted_and_some_are_shown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge_with(monkeypatch, lambda: (9, [f"pod-{number} is on the wrong node" for number in range(5)]))
    bench.compare()
    for table in ("one judgement", "300 pods"):
        row = bench.rows(table)[SCHEDULE]
        assert (row["judged"], row["worse"]) == (9, 5)
    assert capsys.readouterr().out.count("on the wrong node") == 3


def test_preemption_has_more_time_as_all_pods_preempt_before_the_first_is_bound(
    monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    limits: list[float] = []

    def measure(server: object, scene: Scene, start: object, launch: object, limit_seconds: float) -> Pace:
        limits.append(limit_seconds)
        return PACE

    monkeypatch.setattr(comparison, "measure", measure)
    bench.compare("basic")
    bench.compare("preemption")
    assert limits == [20.0, 20.0, 300.0, 300.0]

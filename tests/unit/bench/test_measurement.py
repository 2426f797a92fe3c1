"""A measurement counts from the scheduler's first write, whatever that is about."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bench.programs import running
from bench.scheduler import measurement
from bench.scheduler.api_servers import BoundPod, Counts
from bench.scheduler.contestants import Launch
from bench.scheduler.measurement import Pace, measure
from bench.scheduler.scenes import SCENES
from tests.e2e.support.api import API
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.processes import Process

SCENE = SCENES["basic"](10, 2)
START = 1000.0  # when the scheduler writes first


class Server:
    """An API server on which all has happened already."""

    kubeconfig = Path()
    api: API
    processes: Mapping[str, int] = {}

    def __init__(self, counts: Counts, bound: Sequence[BoundPod]) -> None:
        self._counts = counts
        self._bound = bound

    def create(self, *objects: Object) -> None:
        raise AssertionError("nothing disturbs the scene")

    def delete(self, *objects: Object) -> None:
        raise AssertionError("nothing disturbs the scene")

    def counts(self) -> Counts:
        return self._counts

    def bound_pods(self) -> Sequence[BoundPod]:
        return self._bound


def measured(directory: Path, counts: Counts, *bound: BoundPod) -> Pace:
    def start(launch: Launch) -> AbstractContextManager[Process]:
        return running(Process(["sleep", "60"], launch.directory / "scheduler.log"))

    return measure(Server(counts, bound), SCENE, start, Launch(Path(), directory), limit_seconds=0)


def two_bound(*, other_events: int = 0) -> Counts:
    end = START + 10
    return Counts(START, bound=2, last_binding=end, events=2, last_event=end, other_events=other_events)


def bound_after(seconds: float, *, created_after: float = -60.0) -> BoundPod:
    return BoundPod(START + created_after, START + seconds)


def test_a_failed_attempt_before_the_first_binding_takes_time(tmp_path: Path) -> None:
    pace = measured(tmp_path, two_bound(other_events=1), bound_after(5), bound_after(10))
    assert pace.pods_a_second == 2 / 10
    assert pace.wait is not None
    assert pace.wait.p50 == 7500


def test_a_binding_that_is_the_first_write_starts_the_clock(tmp_path: Path) -> None:
    pace = measured(tmp_path, two_bound(), bound_after(0), bound_after(10))
    assert pace.pods_a_second == 1 / 10


def test_a_pod_that_comes_later_waits_from_its_creation(tmp_path: Path) -> None:
    pace = measured(tmp_path, two_bound(), bound_after(0), bound_after(10, created_after=8))
    assert pace.wait is not None
    assert pace.wait.p50 == 1000


def test_pods_that_are_bound_after_the_end_do_not_count(tmp_path: Path) -> None:
    pace = measured(tmp_path, two_bound(), bound_after(5), bound_after(10), bound_after(30))
    assert pace == measured(tmp_path, two_bound(), bound_after(5), bound_after(10))


def test_a_scheduler_that_binds_nothing_has_a_pace_of_0_and_its_other_events_count(tmp_path: Path) -> None:
    pace = measured(tmp_path, Counts(START, other_events=7))
    assert pace == Pace(0.0, 0, None, 0, 7, {})


def test_one_bound_pod_has_a_pace(tmp_path: Path) -> None:
    counts = Counts(START, bound=1, last_binding=START + 4, events=1, last_event=START + 5)
    assert measured(tmp_path, counts, bound_after(4)).pods_a_second == 1 / 5


def test_a_scheduler_that_writes_nothing_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measurement, "_START_SECONDS", 0.0)
    with pytest.raises(TimeoutError, match="written nothing"):
        measured(tmp_path, Counts())

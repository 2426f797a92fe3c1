import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.programs import PEERS, Peers
from bench.scheduler.contestants import Launch, profiled_schedule
from bench.scheduler.measurement import measure
from bench.scheduler.profiled import Samples
from bench.scheduler.scenes import SCENES
from bench.scheduler.stub_server import stub_site


def schedule_one(samples: Samples) -> None:
    samples.take(0, sys._getframe())


def test_samples_before_the_first_attempt_do_not_count() -> None:
    samples = Samples()
    samples.take(0, sys._getframe())
    assert not samples.stacks

    for _ in range(2):
        schedule_one(samples)
    samples.take(0, sys._getframe())

    (of_attempts, attempts), (of_test, after) = samples.stacks.most_common()
    assert (attempts, after) == (2, 1)
    assert of_attempts == of_test + ";test_profiled:schedule_one"


def test_a_profile_of_schedule_shows_where_its_attempts_take_processor_time(
    build_go: Callable[[Path], Path], tmp_path: Path
) -> None:
    build_go(PEERS / "stubapi")
    scene, profile = SCENES["basic"](10, 200), tmp_path / "stacks.txt"
    with stub_site(Peers(tmp_path), tmp_path, scene) as site, site() as server:
        start = partial(profiled_schedule, profile=profile)
        measure(server, scene, start, Launch(server.kubeconfig, tmp_path))
    assert "scheduler:Scheduler.schedule_one;" in profile.read_text()

"""The model of the API server answers random scripts as the real one does."""

from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

import pytest

from extender_service.config.release import version_of
from tests.e2e.support.programs.control_plane import PROGRAMS, ControlPlane
from tests.worlds.model_check.canonical import difference
from tests.worlds.model_check.comparison import Comparison
from tests.worlds.model_check.generator import FUTURE, OLD, generate
from tests.worlds.model_check.players import ModelServer, Outcome, play
from tests.worlds.model_check.script import Step

# Of each release.
SCRIPTS = 250


@pytest.mark.parametrize("minor", PROGRAMS)
def test_a_seed_gives_one_script(minor: int) -> None:
    assert generate(1, minor) == generate(1, minor)
    assert generate(1, minor) != generate(2, minor)


@pytest.mark.parametrize("minor", PROGRAMS)
def test_scripts_read_before_and_beyond_each_window_and_resize_pods_where_they_can(minor: int) -> None:
    steps = [step for seed in range(400) for step in generate(seed, minor).steps]
    reads = {(step.query.get("resourceVersion"), step.is_watch) for step in steps}
    assert reads >= {(version, is_watch) for version in (OLD, FUTURE) for is_watch in (False, True)}
    resizes = {step.method for step in steps if step.path.endswith("/resize")}
    assert resizes == ({"GET", "PUT", "PATCH"} if minor >= 33 else set())


@pytest.mark.parametrize("minor", PROGRAMS)
def test_the_model_answers_a_script_the_same_each_time(minor: int) -> None:
    for seed in range(20):
        script = generate(seed, minor)
        assert play(script, ModelServer(minor)) == play(script, ModelServer(minor))


@pytest.mark.parametrize("minor", PROGRAMS)
def test_the_model_answers_new_scripts_as_the_api_server(
    minor: int, build_go: Callable[[Path], Path], tmp_path: Path
) -> None:
    first = SystemRandom().randrange(10**6)
    again = f"make model-check SEED={first} SCRIPTS={SCRIPTS} VERSION={version_of(minor)}"
    with ControlPlane(build_go(PROGRAMS[minor]), tmp_path, starts_compacted=True) as plane:
        comparison = Comparison(plane.url, plane.authority.cert_pem.bytes().decode(), plane.token, minor)
        for found in comparison.run(range(first, first + SCRIPTS)):
            assert found is None, f"from seed {first}; again: {again}\n{comparison.shorten(found)}"


def test_what_another_release_answers_is_a_difference() -> None:
    scripts = [generate(seed, 31) for seed in range(20)]
    differences = [difference(play(script, ModelServer(31)), play(script, ModelServer(37))) for script in scripts]
    assert sum(found is not None for found in differences) > 10


def test_uids_and_versions_count_by_their_first_appearance() -> None:
    script = generate(3, 31)
    outcomes = play(script, ModelServer(31))
    shifted = play(script, ModelServer(31, first_version=9_000_000))
    assert outcomes != shifted
    assert difference(outcomes, shifted) is None


def test_how_far_back_a_window_goes_is_no_difference_and_the_version_that_is_asked_for_is() -> None:
    def failed(asked: int, oldest: int) -> list[Outcome]:
        text = f"too old resource version: {asked} ({oldest})"
        status = {"kind": "Status", "message": text, "reason": "Expired", "code": 410}
        step = Step(0, "GET", "v1/pods", query={"watch": "1"})
        return [Outcome(step, 200, None, [{"type": "ERROR", "object": status}])]

    assert difference(failed(1, 700), failed(1, 8000)) is None
    assert difference(failed(1, 700), failed(2, 700)) is not None

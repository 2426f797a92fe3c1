"""The model of the API server answers random scripts as the real one does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support.programs.control_plane import PROGRAMS, ControlPlane
from tests.worlds.model_check.canonical import difference
from tests.worlds.model_check.comparison import Comparison
from tests.worlds.model_check.generator import generate
from tests.worlds.model_check.players import ModelServer, play

# Of each release.
SCRIPTS = 250


def test_a_seed_gives_one_script() -> None:
    assert generate(1) == generate(1)
    assert generate(1) != generate(2)


def test_the_model_answers_a_script_the_same_each_time() -> None:
    for seed in range(20):
        script = generate(seed)
        assert play(script, ModelServer(31)) == play(script, ModelServer(31))


@pytest.mark.parametrize("minor", PROGRAMS)
def test_the_model_answers_as_the_api_server(minor: int, build_go: Callable[[Path], Path], tmp_path: Path) -> None:
    with ControlPlane(build_go(PROGRAMS[minor]), tmp_path) as plane:
        comparison = Comparison(plane.url, plane.authority.cert_pem.bytes().decode(), plane.token, minor)
        for found in comparison.run(range(SCRIPTS)):
            assert found is None, str(comparison.shorten(found))


def test_what_another_release_answers_is_a_difference() -> None:
    differences = [
        difference(play(generate(seed), ModelServer(31)), play(generate(seed), ModelServer(37))) for seed in range(20)
    ]
    assert sum(found is not None for found in differences) > 10


def test_uids_and_versions_count_by_their_first_appearance() -> None:
    script = generate(3)
    outcomes = play(script, ModelServer(31))
    shifted = play(script, ModelServer(31, first_version=9_000_000))
    assert outcomes != shifted
    assert difference(outcomes, shifted) is None

"""A scenario is the same when it is read from the command that shows it."""

import argparse
import shlex
from random import Random

import pytest

from tests.worlds.clusters.draft import EXTRAS, draw_draft
from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import Fault
from tests.worlds.finding.command_line import PROGRAM, add_scenario_options, command, scenario, shown_names
from tests.worlds.finding.small_worlds import small_world
from tests.worlds.scenarios import Scenario
from tests.worlds.settings.program_settings import SETTINGS


def read(line: str) -> Scenario:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    add_scenario_options(parser)
    options = parser.parse_args(shlex.split(line)[3:])
    return scenario(options, options.seed)


@pytest.mark.parametrize(
    ("scenario", "line"),
    [
        (Scenario(7), "python -m tests.worlds --seed 7 --minor 31"),
        (
            Scenario(7, minutes=2.5, replicas=2, nodes=9, pods=3, has_faults=True, mode="beside"),
            f"{PROGRAM} --seed 7 --minutes 2.5 --replicas 2 --nodes 9 --pods 3 --minor 31 --mode beside --faults",
        ),
        (
            Scenario(7, has_others=True, wanted=frozenset({"ports", "people"}), minor=37),
            "python -m tests.worlds --seed 7 --minor 37 --others --wanted people,ports",
        ),
        (
            Scenario(7, api_servers=2, faults=(Fault(8.5, "freeze", "etcd", 4.0), Fault(9.0, "stop", "etcd"))),
            f"{PROGRAM} --seed 7 --api-servers 2 --minor 31 --fault 8.5,freeze,etcd,4,0 --fault 9,stop,etcd,0,0",
        ),
        (
            Scenario(
                7,
                has_others=True,
                without=frozenset({"pod-0", "pod-1", "pod-2", "pod-9", "fault-10", "kubelets"}),
                until=12.25,
            ),
            f"{PROGRAM} --seed 7 --minor 31 --until 12.25 --others --without fault-10,pod-0..2,pod-9,kubelets",
        ),
    ],
)
def test_the_command_says_all_of_a_scenario(scenario: Scenario, line: str) -> None:
    assert command(scenario) == line
    assert read(line) == scenario


def test_a_swarm_is_drawn_by_seed_and_shown_in_full() -> None:
    lines = [f"python -m tests.worlds --seed {seed} --minor 31 --others --wanted people --swarm" for seed in range(20)]
    wanted = [read(line).wanted for line in lines]
    assert all("people" in each for each in wanted)
    assert frozenset[str]().union(*wanted) == {"people", *SETTINGS, *EXTRAS}
    assert [read(command(read(line))).wanted for line in lines] == wanted


def test_small_worlds_are_drawn_by_seed_and_shown_in_full() -> None:
    small = read("python -m tests.worlds --seed 7 --small --mode replace")
    assert small == small_world(7, "replace")
    pair = read("python -m tests.worlds --seed 7 --small --mode replace --wanted leader-lease")
    assert pair == small_world(7, "replace", frozenset({"leader-lease"}))
    assert read(command(small)) == small
    assert len({(each.nodes, each.pods, each.minutes) for each in map(small_world, range(20))}) > 10


def test_small_worlds_have_faults_of_kinds_that_there_are() -> None:
    names = {name for seed in range(100) for name in small_world(seed).fault_kinds}
    assert names
    assert names <= {kind.name for kind in ALL_KINDS}


def test_small_worlds_want_features_and_actors_that_there_are() -> None:
    names = frozenset(name for seed in range(100) for name in small_world(seed).wanted)
    draft = draw_draft(Random(1), names)
    assert names
    assert names <= draft.actors | draft.features


def test_names_of_parts_are_short() -> None:
    assert shown_names([f"pod-{number}" for number in range(200) if number not in (17, 18, 20)]) == (
        "pod-0..16,pod-19,pod-21..199"
    )

"""What a seed draws of a world whose release the command line does not say."""

import argparse
import shlex

from tests.worlds.clusters.draft import NEWER
from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.finding.command_line import add_scenario_options, command, scenario
from tests.worlds.scenarios import Scenario

OF_MAKE_WORLDS = "--minutes 10 --replicas 2 --others --faults"
SEEDS = range(100)
SELDOM = {kind.name for kind in ALL_KINDS if not kind.is_drawn}


def read(line: str, seed: int) -> Scenario:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    add_scenario_options(parser)
    return scenario(parser.parse_args(shlex.split(line)), seed)


def test_seeds_are_of_all_releases_with_two_replicas() -> None:
    drawn = [read(OF_MAKE_WORLDS, seed) for seed in SEEDS]
    assert {each.minor for each in drawn} == {31, 32, 33, 34, 35, 36, 37}
    assert {each.replicas for each in drawn} == {2}


def test_a_share_has_what_no_seed_has_by_itself() -> None:
    drawn = [read(OF_MAKE_WORLDS, seed) for seed in SEEDS]
    kinds = [each.fault_kinds for each in drawn]
    assert {"sampling", "profiles", "bursts", *NEWER} < frozenset[str]().union(*(each.wanted for each in drawn))
    assert {"fail-answers", "freeze-at-work", "stale-cache", "restore-revision"} == SELDOM
    assert frozenset[str]().union(*kinds) > SELDOM
    assert sum(not each for each in kinds) > len(SEEDS) / 2


def test_few_have_a_scheduler_that_retries_all_the_time() -> None:
    with_serve = [read(f"{OF_MAKE_WORLDS} --mode replace", seed) for seed in range(1000)]
    shares = {}
    for is_newer in (False, True):
        worlds = [each for each in with_serve if ((each.minor or 0) >= 33) == is_newer]
        shares[is_newer] = sum("narrow-sampling" in each.wanted for each in worlds) / len(worlds)
    assert 0.2 < shares[False] < 0.4
    assert 0.02 < shares[True] < 0.1


def test_the_command_of_a_drawn_world_runs_just_that_world() -> None:
    for seed in SEEDS:
        drawn = read(OF_MAKE_WORLDS, seed)
        assert read(command(drawn).partition("tests.worlds ")[2], seed) == drawn


def test_where_the_release_is_said_nothing_is_drawn() -> None:
    said = f"{OF_MAKE_WORLDS} --minor 34"
    expected = [Scenario(seed, 10.0, 2, has_others=True, has_faults=True, minor=34) for seed in SEEDS]
    assert [read(said, seed) for seed in SEEDS] == expected


def test_faults_that_are_named_are_all_there_are() -> None:
    assert {read(f"{OF_MAKE_WORLDS} --fault-kinds freeze", seed).fault_kinds for seed in SEEDS} == {
        frozenset({"freeze"})
    }


def test_serve_that_works_only_with_the_scheduler_on_its_machine_has_one_replica() -> None:
    drawn = [read(f"{OF_MAKE_WORLDS} --mode replace", seed) for seed in SEEDS]
    assert {("leader-lease" in each.wanted, each.replicas) for each in drawn} == {(True, 1), (False, 2)}
    assert all(each.is_pair == ("leader-lease" in each.wanted) for each in drawn)

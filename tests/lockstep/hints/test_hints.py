"""The queueing hints of every in-tree plugin are kube-scheduler's, on random pairs of objects."""

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.config.rules import DEFAULT_RULES
from extender_service.plugins.in_tree import IN_TREE
from tests.lockstep.hints import golden
from tests.lockstep.hints.comparison import ask, differences, encoded, reference
from tests.lockstep.hints.generator import cases

# Those whose programs are built here; `make hints` builds those between.
MINORS = (OLDEST_MINOR, NEWEST_MINOR)
NEW_CASES = 50
COUNTED_CASES = 80

# Those that have a hint of their own, and the resources that it is about.
WITH_HINTS = {
    "InterPodAffinity": {"Node", "Pod"},
    "NodeAffinity": {"Node"},
    "NodePorts": {"Pod"},
    "NodeResourcesFit": {"Node", "Pod"},
    "NodeUnschedulable": {"Node"},
    "NodeVolumeLimits": {"Pod"},
    "PodTopologySpread": {"Node", "Pod"},
    "SchedulingGates": {"Pod"},
    "TaintToleration": {"Node", "Pod"},
    "VolumeBinding": {
        "PersistentVolumeClaim",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass",
    },
    "VolumeRestrictions": {"PersistentVolumeClaim", "Pod"},
    "VolumeZone": {"PersistentVolume", "PersistentVolumeClaim", "storage.k8s.io/StorageClass"},
}


@pytest.fixture(scope="session")
def references(build_go: Callable[[Path], Path]) -> None:
    """The programs of both releases, built."""
    del build_go  # skips without Go
    for minor in MINORS:
        reference(minor)


def test_golden_answers() -> None:
    assert differences(golden.read(golden.CASES), golden.read(golden.ANSWERS)) == []


def test_golden_answers_are_of_both_kinds_and_of_every_plugin_that_rejects() -> None:
    said: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for answers in golden.read(golden.ANSWERS):
        for event in answers["events"]:
            for asked, answer in event["hints"].items():
                plugin, _, registered = asked.partition(" on ")
                said[plugin, registered.split()[0]].add(answer)
    for plugin, resources in WITH_HINTS.items():
        for resource in resources:
            assert said[plugin, resource] >= {"Queue", "QueueSkip"}, (plugin, resource)
    rejecting = {
        plugin.name for plugin in IN_TREE if plugin.points_in(DEFAULT_RULES) & {"preEnqueue", "preFilter", "filter"}
    }
    assert {plugin for plugin, _ in said} == rejecting - {"NodeLabel"}  # which v1.31.1 no longer has


@pytest.mark.usefixtures("references")
def test_golden_answers_are_what_the_reference_says() -> None:
    assert ask(encoded(golden.read(golden.CASES))) == golden.read(golden.ANSWERS), (
        "run python -m tests.lockstep.hints --golden"
    )


@pytest.mark.usefixtures("references")
@pytest.mark.parametrize("minor", MINORS)
def test_new_answers(minor: int) -> None:
    seed = random.SystemRandom().randrange(10**9)
    made = list(cases(seed, NEW_CASES, minor))
    again = f"python -m tests.lockstep.hints --emulated-version 1.{minor} --seed {seed}"
    assert differences(made, ask(encoded(made, minor), minor), minor) == [], again


@pytest.mark.usefixtures("references")
def test_the_hints_of_the_newest_release_are_of_both_kinds() -> None:
    said: defaultdict[str, set[str]] = defaultdict(set)
    for answers in ask(encoded(cases(golden.SEED, COUNTED_CASES, 37), 37), 37):
        for event in answers["events"]:
            for asked, answer in event["hints"].items():
                said[asked.partition(" on ")[0]].add(answer)
    one_sided = {plugin for plugin, answers in said.items() if not answers >= {"Queue", "QueueSkip"}}
    assert one_sided == {"DefaultPreemption", "NodeName", "SchedulingGates"}

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from extender_service.config.gate_dependencies import gate_dependencies
from extender_service.config.known_gates import known_gates, minors_with, was_last_on

PROGRAM = Path(__file__).parents[2] / "kubernetes_1_37" / "known_gates"
STAGES = {"ALPHA": "Alpha", "BETA": "Beta", "": "GA", "DEPRECATED": "Deprecated"}


def test_a_gate_changes_its_stage_from_release_to_release() -> None:
    found = [known_gates(minor).get("SchedulerQueueingHints") for minor in range(31, 38)]
    beta_off, beta_on, locked = ("Beta", False, False), ("Beta", True, False), ("GA", True, True)
    assert found == [beta_off, beta_on, beta_on, locked, locked, locked, None]
    assert minors_with("SchedulerQueueingHints") == [31, 32, 33, 34, 35, 36]
    assert minors_with("Nonsense") == []


def test_a_gate_that_is_gone_stays_as_it_was_last() -> None:
    assert was_last_on("SchedulerQueueingHints", 37)
    assert not was_last_on("VolumeCapacityPriority", 37)
    assert not was_last_on("NodeDeclaredFeatures", 31)


def test_gates_and_dependencies_of_the_newest_release_are_kube_schedulers(build_go: Callable[[Path], Path]) -> None:
    printed = json.loads(subprocess.run([build_go(PROGRAM)], stdout=subprocess.PIPE, check=True).stdout)
    theirs = {name: (STAGES[stage], default, locked) for name, (stage, default, locked, _) in printed.items()}
    assert known_gates(37) == {name: gate for name, gate in theirs.items() if name not in ("AllAlpha", "AllBeta")}
    assert gate_dependencies(37) == {name: needed for name, (*_, needed) in printed.items() if needed}
